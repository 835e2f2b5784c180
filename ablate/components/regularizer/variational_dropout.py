"""Locked dropout: one mask for each row, the same at every step of the window.

    y_t = m * x_t,    m ~ Bernoulli(1 - p)/(1 - p) of shape [1, B, D]   (Gal & Ghahramani 2016)

As AWD-LSTM uses it (Merity et al. 2018, Section 4.1): on the word vectors, between layers, and
on the last layer; the mixtures of softmaxes add their components' vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.components.regularizer import Chance, Regularizer
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class VariationalDropoutConfig:
    """The share of units dropped, by site. 0 is the identity."""

    input: float = setting(0.0, doc="of the word vectors (dropouti)", low=0, high=0.99)
    hidden: float = setting(0.0, doc="between layers (dropouth)", low=0, high=0.99)
    output: float = setting(0.0, doc="of the last layer (dropout)", low=0, high=0.99)
    latent: float = setting(
        0.0, doc="of the components' vectors in MoS and DOC (dropoutl)", low=0, high=0.99
    )


def locked(x_TBH: Tensor, mask_1BH: Tensor) -> Tensor:
    """The same mask at every step."""
    return x_TBH * mask_1BH


@register(
    "regularizer",
    "variational_dropout",
    config=VariationalDropoutConfig,
    paper="merity2018awd",
    equation="Section 4.1",
)
@final
class VariationalDropout(Regularizer):
    """A mask for each window, site and layer."""

    def __init__(self, config: VariationalDropoutConfig) -> None:
        self.rates = {
            "input": config.input,
            "hidden": config.hidden,
            "output": config.output,
            "latent": config.latent,
        }

    def mask(self, site: str, x_TBH: Tensor, chance: Chance) -> Tensor:
        rate = self.rates.get(site.partition("/")[0], 0.0)
        if rate == 0:
            return x_TBH
        shape = (1, *x_TBH.shape[1:])
        return locked(x_TBH, chance.keep(f"variational_dropout/{site}", shape, rate, x_TBH))
