"""L2: keeps weights small, with a weight for each group of parameters.

weight * sum(w^2)        in the loss, as in Keras (Oliva & Lago-Fernandez 2021, Tables 3-4)
weight * sum(w^2) / 2    in the loss, with `half` (Zilly et al. 2017's code)
w <- (1 - weight) w      after each update, whatever the rate: "decoupled" (Gal 2016's code)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.lm.components import (
    CombinationError,
    LanguageModel,
    Pass,
    Regularizer,
    register,
    setting,
)
from ablate.lm.components.regularizer import _group_weights as groups


@dataclass(frozen=True, kw_only=True)
class L2Config(groups.GroupWeights):
    """The weight of each group, and the mode. With all weights at 0 it is the identity."""

    mode: str = setting(
        "loss",
        doc="a term of the loss (scaled by the learning rate), or a separate weight decay",
        choices=("loss", "decoupled"),
    )
    half: bool = setting(False, doc="halve the sum of squares in the loss; Keras does not")


@register(
    "regularizer",
    "l2",
    config=L2Config,
    paper="oliva2021dual",
    equation="Tables 3 and 4 (L2reg)",
    departures=("weights that are shared or tied are counted once",),
)
@final
class L2(Regularizer):
    """A penalty, or a step towards 0 after each update."""

    def __init__(self, config: L2Config) -> None:
        if config.half and config.mode == "decoupled":
            raise CombinationError(
                "regularizer.l2.half = true halves a sum in the loss, and regularizer.l2.mode = "
                "'decoupled' has none. Instead: half = false, or mode = 'loss'."
            )
        self.config = config
        self.factor = 0.5 if config.half else 1.0

    def check(self, model: LanguageModel) -> None:
        groups.check("l2", self.config, model)

    def penalty(self, passed: Pass, model: LanguageModel) -> Tensor | None:
        if self.config.mode != "loss":
            return None
        return groups.weighted_sum(self.config, model, lambda w: self.factor * w.square().sum())

    def project(self, model: LanguageModel) -> None:
        if self.config.mode == "decoupled":
            for weight, parameter in groups.weighted_parameters(self.config, model):
                parameter.data.mul_(1 - weight)
