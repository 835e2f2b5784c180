"""A soft cap of a head's logits: none is ever larger than the cap, and small ones hardly change.

    z -> cap tanh(z / cap),    d/dz = 1 - tanh(z / cap)^2

Gemma 2 caps its logits at 30 (Gemma Team 2024, Section 2), nanochat at 15. In a mixture, the logits
of every expert are capped; a pointer's probabilities are not.
"""

from __future__ import annotations

from torch import Tensor

from ablate.config.config import Config
from ablate.errors import CombinationError


def capped(logits: Tensor, cap: float | None) -> Tensor:
    """The logits under the cap; unchanged without one."""
    return logits if cap is None else cap * (logits / cap).tanh()


def check_cap(config: Config) -> None:
    """Refuse a cap beside a gate: both change the logits, and no paper says in which order."""
    cap, gate = getattr(config["head"].config, "logit_cap", None), config["gate"].name
    if cap is not None and gate != "none":
        raise CombinationError(
            f"head.logit_cap = {cap:g} and gate = '{gate}' both change the logits, and no paper "
            "says which does so first. Instead: gate = 'none', or leave logit_cap out."
        )


def check_uncapped(cap: float | None, setting: str, instead: str) -> None:
    """Refuse what is only right for logits that are products of vectors, with its way out."""
    if cap is not None:
        raise CombinationError(
            f"{setting} needs logits that are products of vectors, and head.logit_cap = {cap:g} "
            f"bends them. Instead: {instead}, or leave logit_cap out."
        )
