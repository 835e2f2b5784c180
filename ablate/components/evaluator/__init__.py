"""Evaluators: the log-probability of every token of a split, given by one model or several.

Several models are judged together, by the mean of their probabilities (an ensemble):

    log p = logsumexp_m(log p_m) - log M     (Takase et al. 2018, Table 7)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from ablate.components.flow import TrainingText
from ablate.components.regularizer import Regularizer
from ablate.errors import CombinationError
from ablate.model import LanguageModel


@dataclass(frozen=True, eq=False)
class Reading:
    """Trained models, the text they are judged on, and what each evaluator has found so far."""

    models: Sequence[LanguageModel]
    text: TrainingText
    evaluators: Mapping[str, Evaluator] = field(default_factory=dict)  # by name, those chosen
    found: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    regularizers: Sequence[Sequence[Regularizer]] = ()  # each model's; (): none of them has any
    kept: dict[Hashable, Any] = field(default_factory=dict)

    def keep(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """What an evaluator needs of more than one split, computed once."""
        if key not in self.kept:
            self.kept[key] = compute()
        return self.kept[key]

    def regularizers_of(self, index: int) -> tuple[Regularizer, ...]:
        """Those that a model was trained with."""
        return tuple(self.regularizers[index]) if self.regularizers else ()

    def stream(self, split: str) -> Tensor:
        return self.text.stream(split)

    def log_probs(self, name: str, split: str) -> np.ndarray:
        """What another of the chosen evaluators gives, computed once."""
        if name not in self.evaluators:
            raise CombinationError(
                f"an evaluator builds on the evaluator '{name}', which was not chosen. Add "
                f"evaluator.{name} to the config. Chosen: {', '.join(self.evaluators)}."
            )
        if (name, split) not in self.found:
            evaluator = self.evaluators[name]
            self.found[name, split] = evaluator.token_log_probs(self, split)
        return self.found[name, split]


class Evaluator(ABC):
    """Built as `Evaluator(config)`. It leaves the models' weights as they were."""

    gives_log_probs = True  # False: it judges by other metrics, and can be no trial's first one

    @abstractmethod
    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        """log p of every token after the first, in float64, given all that precede it."""

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        """What is recorded of a split, by metric."""
        nll = -float(np.mean(reading.log_probs(name, split)))
        return {"nll": nll, "ppl": math.exp(min(nll, 700))}


def mean_over_models(
    models: Sequence[LanguageModel], log_probs: Callable[[LanguageModel], np.ndarray]
) -> np.ndarray:
    """The log of the models' mean probability; one model's own where there is one."""
    return log_mean_exp(np.stack([log_probs(model) for model in models]))


def log_mean_exp(log_probs_MN: np.ndarray) -> np.ndarray:
    """The log of the mean probability over the members; nan where one has diverged."""
    with np.errstate(invalid="ignore"):
        return np.logaddexp.reduce(log_probs_MN, axis=0) - np.log(len(log_probs_MN))
