"""L1: makes weights zero, with a weight for each group of parameters.

    weight * sum(|w|)                           in the loss (Pachitariu & Sahani 2013, Table 2)
    w <- sign(w) max(|w| - weight, 0)           after each update, whatever the rate: "decoupled"

In the loss, a weight overshoots zero and returns; the soft threshold leaves it at exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor
from torch.nn import functional as F

from ablate.lm.components import LanguageModel, Pass, Regularizer, register, setting
from ablate.lm.components.regularizer import _group_weights as groups


@dataclass(frozen=True, kw_only=True)
class L1Config(groups.GroupWeights):
    """The weight of each group, and the mode. With all weights at 0 it is the identity."""

    mode: str = setting(
        "loss",
        doc="a term of the loss (scaled by the learning rate), or a separate soft threshold",
        choices=("loss", "decoupled"),
    )


@register(
    "regularizer",
    "l1",
    config=L1Config,
    paper="pachitariu2013irlm",
    equation="Table 2 (L1)",
    departures=("the paper prints neither the weight nor the groups: both are settings",),
)
@final
class L1(Regularizer):
    """A penalty, or a soft threshold after each update."""

    def __init__(self, config: L1Config) -> None:
        self.config = config

    def check(self, model: LanguageModel) -> None:
        groups.check("l1", self.config, model)

    def penalty(self, passed: Pass, model: LanguageModel) -> Tensor | None:
        if self.config.mode != "loss":
            return None
        return groups.weighted_sum(self.config, model, lambda w: w.abs().sum())

    def project(self, model: LanguageModel) -> None:
        if self.config.mode == "decoupled":
            for weight, parameter in groups.weighted_parameters(self.config, model):
                parameter.data.copy_(F.softshrink(parameter.data, weight))
