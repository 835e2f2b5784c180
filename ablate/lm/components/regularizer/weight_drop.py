"""DropConnect on recurrent matrices (Merity et al. 2018, Section 2).

W_hh <- m * W_hh,    m ~ Bernoulli(1 - p)/(1 - p), one for the whole window and all rows
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.lm.components import Chance, Regularizer, register, setting


@dataclass(frozen=True, kw_only=True)
class WeightDropConfig:
    """The share of recurrent weights dropped. 0 is the identity."""

    rate: float = setting(0.0, doc="share of recurrent weights dropped (wdrop)", low=0, high=0.99)


@register(
    "regularizer",
    "weight_drop",
    config=WeightDropConfig,
    paper="merity2018awd",
    equation="Section 2",
)
@final
class WeightDrop(Regularizer):
    """One mask per window and recurrent matrix; input weights and biases are not masked."""

    def __init__(self, config: WeightDropConfig) -> None:
        self.rate = config.rate

    @property
    def acts_on(self) -> Mapping[str, str]:
        return {"rate": "weight"} if self.rate else {}

    def weight(self, name: str, weight: Tensor, chance: Chance) -> Tensor:
        if self.rate == 0:
            return weight
        return weight * chance.keep(f"weight_drop/{name}", weight.shape, self.rate, weight)
