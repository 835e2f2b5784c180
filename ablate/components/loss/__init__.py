"""Losses: what a window's gradient is taken of."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from ablate.components.flow import Pass


class Loss(ABC):
    """Built as `Loss(config)`."""

    @abstractmethod
    def __call__(self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor) -> Tensor:
        """The loss summed over the window's tokens, a scalar."""
