"""Losses: what a window's gradient is taken of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from ablate.components.flow import Pass, TrainingText
from ablate.components.regularizer import Chance


class Loss(ABC):
    """Built as `Loss(config, text)`; without a text where only shapes are asked for."""

    @abstractmethod
    def __init__(self, config: Any, text: TrainingText | None) -> None: ...

    @abstractmethod
    def __call__(
        self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor, chance: Chance
    ) -> Tensor:
        """The loss summed over the window's tokens, a scalar."""
