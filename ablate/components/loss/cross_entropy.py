"""Cross entropy: minus the log-probability of the target words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.config.registry import register
from ablate.model.flow import Pass, TrainingText
from ablate.model.masks import Chance
from ablate.model.mixture import summed_nll
from ablate.model.slots import Loss


@dataclass(frozen=True, kw_only=True)
class CrossEntropyConfig:
    """No settings."""


@register("loss", "cross_entropy", config=CrossEntropyConfig)
@final
class CrossEntropy(Loss):
    """-sum log p(target), without ever storing a whole distribution."""

    def __init__(self, config: CrossEntropyConfig, text: TrainingText | None) -> None:
        self.config = config

    def __call__(
        self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor, chance: Chance
    ) -> Tensor:
        return summed_nll(passed.mixture, targets_N)
