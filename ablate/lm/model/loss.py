"""Losses: the scalar whose gradient trains the model, computed window by window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from ablate.lm.model.flow import Pass, TrainingText
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.masks import Chance


class Loss(ABC):
    """Built as `Loss(config, text)`; `text` is None where only shapes are needed."""

    reads_words = True  # False: it ignores the word vectors that it is given

    @abstractmethod
    def __init__(self, config: Any, text: TrainingText | None) -> None: ...

    def check(self, model: LanguageModel) -> None:  # noqa: B027 (most train every model)
        """Raise a `CombinationError` for a model that it cannot train."""

    @abstractmethod
    def __call__(
        self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor, chance: Chance
    ) -> Tensor:
        """The loss summed over the window's tokens, a scalar."""

    def operations(self, model: LanguageModel) -> float:
        """The operations for each training token of what it multiplies with matrices besides the
        logits of every word, with the backward pass; less than 0 if it needs fewer logits."""
        return 0
