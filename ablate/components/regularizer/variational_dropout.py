"""Locked dropout: one mask for each row, the same at every step of the window.

    y_t = m * x_t,    m ~ Bernoulli(1 - p)/(1 - p) of shape [1, B, D]   (Gal & Ghahramani 2016)

As AWD-LSTM uses it (Merity et al. 2018, Section 4.1): on the word vectors, between layers, and
on the last layer; the mixtures of softmaxes add their components' vectors. Gal & Ghahramani mask
the recurrent state as well, as the gates read it; in the scripts behind their best numbers every
gate reads input and state under masks of its own (`gate_masks`). Inan et al. (2017) have one mask
for a layer's output, wherever it is read: by its own next step, and by the next layer (`tied`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from torch import Tensor

from ablate.components.regularizer import Chance, Regularizer
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register

if TYPE_CHECKING:
    from ablate.model import LanguageModel


@dataclass(frozen=True, kw_only=True)
class VariationalDropoutConfig:
    """The share of units dropped, by site. 0 is the identity."""

    input: float = setting(0.0, doc="of the word vectors (dropouti)", low=0, high=0.99)
    hidden: float = setting(0.0, doc="between layers (dropouth)", low=0, high=0.99)
    output: float = setting(0.0, doc="of the last layer (dropout)", low=0, high=0.99)
    latent: float = setting(
        0.0, doc="of the components' vectors in MoS and DOC (dropoutl)", low=0, high=0.99
    )
    recurrent: float = setting(
        0.0, doc="of the state, where the next step reads it", low=0, high=0.99
    )
    gate_masks: str = setting(
        "shared",
        doc="one mask for all gates, or one for each, on a layer's input and state (Gal)",
        choices=("shared", "per_gate"),
    )
    tied: bool = setting(
        False, doc="a layer's output has one mask for its next step and all else (Inan)"
    )

    @property
    def off(self) -> bool:
        return not any((self.input, self.hidden, self.output, self.latent, self.recurrent))


def locked(x_TBH: Tensor, mask_1BH: Tensor) -> Tensor:
    """The same mask at every step."""
    return x_TBH * mask_1BH


@register(
    "regularizer",
    "variational_dropout",
    config=VariationalDropoutConfig,
    paper="merity2018awd",
    equation="Section 4.1",
    departures=(
        "with gate_masks = 'per_gate', what else reads a layer's input (a mixture over layers, a "
        "penalty) reads it without a mask, since there is none for all gates",
    ),
)
@final
class VariationalDropout(Regularizer):
    """A mask for each window, site and layer."""

    def __init__(self, config: VariationalDropoutConfig) -> None:
        _check_agreement(config)
        self.per_gate = config.gate_masks == "per_gate"
        self.tied = config.tied
        self.num_layers = 0
        self.rates = {
            "input": config.input,
            "hidden": config.hidden,
            "output": config.output,
            "latent": config.latent,
            "recurrent": config.recurrent,
        }

    def check(self, model: LanguageModel) -> None:
        self.num_layers = len(model.backbone.widths)
        if self.per_gate and model.backbone.num_gates < 2:
            raise CombinationError(
                "regularizer.variational_dropout.gate_masks = 'per_gate' masks what each gate "
                f"reads, and the backbone ({type(model.backbone).__name__}) has no gates that can "
                "be masked one by one. Choose 'shared', or backbone = 'lstm', 'gru' or 'rhn'."
            )

    def mask(self, site: str, x_TBH: Tensor, chance: Chance) -> Tensor:
        kind = site.partition("/")[0]
        rate = self.rates.get(kind, 0.0)
        if rate == 0 or (self.per_gate and kind in ("input", "hidden")):
            return x_TBH
        shape = (1, *x_TBH.shape[1:])
        return locked(x_TBH, chance.keep(f"variational_dropout/{site}", shape, rate, x_TBH))

    def held(
        self, site: str, shape: tuple[int, ...], like: Tensor, chance: Chance
    ) -> Tensor | None:
        kind, _, rest = site.partition("/")
        if kind == "gates" and self.per_gate:
            kind = rest.partition("/")[0]
        rate = self.rates.get(kind, 0.0)
        if rate == 0:
            return None
        if not self.per_gate and len(shape) == 3:
            shape = (1, *shape[1:])
        if kind == "recurrent" and self.tied:
            site = "output" if int(rest) == self.num_layers else f"hidden/{rest}"
        return chance.keep(f"variational_dropout/{site}", shape, rate, like)


def _check_agreement(config: VariationalDropoutConfig) -> None:
    """Refuse what a tied mask cannot be: of several rates, or one for each gate."""
    if not config.tied:
        return
    place = "regularizer.variational_dropout"
    if config.gate_masks != "shared":
        raise CombinationError(
            f"{place}.tied = true gives a layer's output one mask, and {place}.gate_masks = "
            "'per_gate' several. Choose one of the two."
        )
    if not config.recurrent == config.hidden == config.output:
        raise CombinationError(
            f"{place}.tied = true gives a layer's output one mask, but its rates differ: "
            f"{place}.recurrent = {config.recurrent:g}, hidden = {config.hidden:g}, output = "
            f"{config.output:g}. Set all three to the same rate."
        )
