"""Cross entropy: minus the log-probability of the words that came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.components.flow import Pass, TrainingText
from ablate.components.loss import Loss
from ablate.components.mixture import summed_nll
from ablate.components.regularizer import Chance
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class CrossEntropyConfig:
    """Nothing to set."""


@register("loss", "cross_entropy", config=CrossEntropyConfig)
@final
class CrossEntropy(Loss):
    """-sum log p(target), never holding a whole distribution."""

    def __init__(self, config: CrossEntropyConfig, text: TrainingText | None) -> None:
        self.config = config

    def __call__(
        self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor, chance: Chance
    ) -> Tensor:
        return summed_nll(passed.mixture, targets_N)
