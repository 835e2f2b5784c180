"""Weights that are not negative: a negative one is moved to 0, or towards it, after every update.

    w <- w + share * (max(w, 0) - w)

With a share of 1, all weights stay those of a sum-product network (Cheng et al. 2014), which adds
and multiplies numbers that are not negative; the authors' code clips them so. It acts on every
parameter that is trained, the word vectors included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import nn

from ablate.lm.components import Regularizer, register, setting


@dataclass(frozen=True, kw_only=True)
class NonNegativeConfig:
    """Off at 0."""

    share: float = setting(
        0.0, doc="share of the way to 0 that negative weights move; 1: clip them", low=0, high=1
    )


@register(
    "regularizer",
    "non_negative",
    config=NonNegativeConfig,
    paper="cheng2014spn",
    equation="the clipping of the authors' code (share = 1)",
)
@final
class NonNegative(Regularizer):
    """A projection of all trained parameters."""

    def __init__(self, config: NonNegativeConfig) -> None:
        # Only clipping gives the same if it is done twice (`bounds`).
        self.config, self.bounds = config, config.share == 1

    def project(self, model: nn.Module) -> None:
        left = 1 - self.config.share
        for weight in model.parameters():
            if weight.requires_grad and left < 1:
                weight.data.add_(weight.data.clamp_max(0), alpha=left - 1)
