"""Dropout: an independent mask for every unit, row and step.

    y_t = m_t * x_t,    m_t ~ Bernoulli(1 - p)/(1 - p)

As Zaremba et al. (2014) use it, on all connections except the recurrent ones: on the word vectors,
between layers, and on the last layer before the softmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.config.fields import all_fields
from ablate.lm.components import Chance, Regularizer, register, setting


@dataclass(frozen=True, kw_only=True)
class DropoutConfig:
    """The share of units dropped, by site. 0 is the identity."""

    input: float = setting(0.0, doc="dropout rate on the word vectors", low=0, high=0.99)
    hidden: float = setting(0.0, doc="dropout rate between layers", low=0, high=0.99)
    output: float = setting(0.0, doc="dropout rate on the last layer's output", low=0, high=0.99)
    latent: float = setting(
        0.0, doc="dropout rate on the experts' vectors in MoS and DOC", low=0, high=0.99
    )
    attention: float = setting(
        0.0, doc="dropout rate on the output of an attention layer", low=0, high=0.99
    )


@register(
    "regularizer", "dropout", config=DropoutConfig, paper="zaremba2014", equation="Section 3.2"
)
@final
class Dropout(Regularizer):
    """One mask per window, site and layer, different at every step."""

    def __init__(self, config: DropoutConfig) -> None:
        self.rates = all_fields(config)

    @property
    def acts_on(self) -> Mapping[str, str]:
        return {site: site for site, rate in self.rates.items() if rate}

    def mask(self, site: str, x_TBH: Tensor, chance: Chance) -> Tensor:
        rate = self.rates.get(site.partition("/")[0], 0.0)  # all layers have one rate: "hidden/1"
        if rate == 0:
            return x_TBH
        return x_TBH * chance.keep(f"dropout/{site}", x_TBH.shape, rate, x_TBH)
