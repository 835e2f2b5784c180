"""Evaluators: the log-probability of every token of a split, given by one model or several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ablate.model import LanguageModel


class Evaluator(ABC):
    """Built as `Evaluator(config)`."""

    @abstractmethod
    def token_log_probs(self, models: Sequence[LanguageModel], stream_N: Tensor) -> np.ndarray:
        """log p of every token after the first, in float64, given all that precede it."""
