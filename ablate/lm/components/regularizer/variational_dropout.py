"""Locked dropout: one mask per row, the same at every step of the window.

    y_t = m * x_t,    m ~ Bernoulli(1 - p)/(1 - p) of shape [1, B, D]   (Gal & Ghahramani 2016)

As AWD-LSTM uses it (Merity et al. 2018, Section 4.2): on the word vectors, between layers, and
on the last layer; mixtures of softmaxes also use it on their experts' vectors. Gal & Ghahramani
also mask the recurrent state as the gates read it; in the scripts behind their best numbers every
gate has its own masks on input and state (`gate_masks`). Inan et al. (2017) use one mask for a
layer's output wherever it is read: by its own next step, and by the next layer (`tied`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.errors import CombinationError
from ablate.lm.components import Chance, LanguageModel, Regularizer, register, setting


@dataclass(frozen=True, kw_only=True)
class VariationalDropoutConfig:
    """The share of units dropped, by site. 0 is the identity."""

    input: float = setting(0.0, doc="dropout rate on the word vectors (dropouti)", low=0, high=0.99)
    hidden: float = setting(0.0, doc="dropout rate between layers (dropouth)", low=0, high=0.99)
    output: float = setting(
        0.0, doc="dropout rate on the last layer's output (dropout)", low=0, high=0.99
    )
    latent: float = setting(
        0.0, doc="dropout rate on the experts' vectors in MoS and DOC (dropoutl)", low=0, high=0.99
    )
    attention: float = setting(
        0.0, doc="dropout rate on the output of an attention layer", low=0, high=0.99
    )
    recurrent: float = setting(
        0.0, doc="dropout rate on the state as the next step reads it", low=0, high=0.99
    )
    gate_masks: str = setting(
        "shared",
        doc="masks on a layer's input and state: one for all gates, or one per gate (Gal)",
        choices=("shared", "per_gate"),
    )
    tied: bool = setting(
        False, doc="one mask for a layer's output, for the next step and all other readers (Inan)"
    )

    @property
    def off(self) -> bool:
        """Return whether all rates are 0."""
        return not any(self.rates.values())

    @property
    def rates(self) -> dict[str, float]:
        """The dropout rate by kind of site."""
        return {name: getattr(self, name) for name in SITES}


SITES = ("input", "hidden", "output", "latent", "attention", "recurrent")


@register(
    "regularizer",
    "variational_dropout",
    config=VariationalDropoutConfig,
    paper="merity2018awd",
    equation="Section 4.2",
    departures=(
        "with gate_masks = 'per_gate', other readers of a layer's input (a mixture over layers, a "
        "penalty) read it unmasked, since there is no single mask",
    ),
)
@final
class VariationalDropout(Regularizer):
    """One mask per window, site and layer."""

    def __init__(self, config: VariationalDropoutConfig) -> None:
        _check_agreement(config)
        self.per_gate = config.gate_masks == "per_gate"
        self.tied = config.tied
        self.num_layers = 0
        self.rates = config.rates

    @property
    def acts_on(self) -> Mapping[str, str]:
        return {site: site for site, rate in self.rates.items() if rate}

    def check(self, model: LanguageModel) -> None:
        self.num_layers = len(model.backbone.widths)
        if self.per_gate and model.backbone.num_gates < 2:
            raise CombinationError(
                "regularizer.variational_dropout.gate_masks = 'per_gate' masks each gate's input "
                f"separately, and the backbone ({type(model.backbone).__name__}) has no gates that "
                "can be masked separately. Instead: 'shared', or backbone = 'lstm', 'gru' or 'rhn'."
            )

    def mask(self, site: str, x_TBH: Tensor, chance: Chance) -> Tensor:
        kind = site.partition("/")[0]
        rate = self.rates.get(kind, 0.0)
        # There the gates ask for masks of their own (`locked`).
        if rate == 0 or (self.per_gate and kind in ("input", "hidden")):
            return x_TBH
        shape = (1, *x_TBH.shape[1:])
        return x_TBH * chance.keep(f"variational_dropout/{site}", shape, rate, x_TBH)

    def locked(
        self, site: str, shape: tuple[int, ...], like: Tensor, chance: Chance
    ) -> Tensor | None:
        kind, _, rest = site.partition("/")
        if kind == "gates" and self.per_gate:
            kind = rest.partition("/")[0]  # the rate of the layer's input
        rate = self.rates.get(kind, 0.0)
        if rate == 0:
            return None
        if not self.per_gate and len(shape) == 3:
            shape = (1, *shape[1:])  # [gates, B, H]: one mask for all gates
        if kind == "recurrent" and self.tied:
            # Its own site, and so the same stream and the same mask as for other readers.
            site = "output" if int(rest) == self.num_layers else f"hidden/{rest}"
        return chance.keep(f"variational_dropout/{site}", shape, rate, like)


def _check_agreement(config: VariationalDropoutConfig) -> None:
    """Refuse tied masks with different rates or with one mask per gate."""
    if not config.tied:
        return
    path = "regularizer.variational_dropout"
    if config.gate_masks != "shared":
        raise CombinationError(
            f"{path}.tied = true gives a layer's output one mask, and {path}.gate_masks = "
            "'per_gate' several. Instead: only one of the two."
        )
    if not config.recurrent == config.hidden == config.output:
        raise CombinationError(
            f"{path}.tied = true gives a layer's output one mask, but its rates differ: "
            f"{path}.recurrent = {config.recurrent:g}, hidden = {config.hidden:g}, output = "
            f"{config.output:g}. Instead: the same rate for all three."
        )
