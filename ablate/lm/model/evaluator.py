"""Evaluators: the log-probability of every token of a split, given by one model or several.

Several models are evaluated together, by the mean of their probabilities (an ensemble):

    log p = logsumexp_m(log p_m) - log M     (Takase et al. 2018, Table 7)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from ablate.config.metrics import perplexity
from ablate.errors import CombinationError
from ablate.lm.kinds import TEXT
from ablate.lm.model.flow import PairText, TrainingText
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.ngram import Counts
from ablate.lm.model.regularizer import Regularizer


class Pieces:
    """What an evaluation takes long to compute, by a key and in steps. A trial saves the values (an
    array or plain data), and pauses between two steps: `ablate/lm/training/pieces.py`."""

    def __init__(self) -> None:
        self.so_far: dict[str, tuple[int, Any]] = {}  # steps done, and the value after them

    def folded(self, key: str, num_steps: int, step: Callable[[int, Any], Any]) -> Any:
        """The value after all steps; `step(number, value)` gives the next, from None on."""
        done, value = self.so_far.get(key, (0, None))
        for number in range(done, num_steps):
            self.starts(f"{key}/{number}")
            value = step(number, value)
            self.so_far[key] = (number + 1, value)
            self.ends(key)
        self.starts(f"{key}/all")
        return value

    def starts(self, what: str) -> None:
        """Called before each step of a piece, and after its last."""

    def ends(self, key: str) -> None:
        """Called after each step; may raise."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Trained models, the text they are evaluated on, and the results of evaluators so far."""

    models: Sequence[LanguageModel]
    text: TrainingText
    evaluators: Mapping[str, Evaluator] = field(default_factory=dict)  # by name, those chosen
    regularizers: Sequence[Sequence[Regularizer]] = ()  # of each model; (): no model has any
    cache: dict[Hashable, Any] = field(default_factory=dict)
    sentences: dict[str, list[str]] = field(default_factory=dict)  # that were written, by split
    signatures: dict[str, str] = field(default_factory=dict)  # of what computed a metric
    counts: Counts | None = None  # an n-gram model, instead of `models`
    pieces: Pieces = field(default_factory=Pieces)

    def cached(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """A value that is needed more than once, computed once."""
        if key not in self.cache:
            self.cache[key] = compute()
        return self.cache[key]

    @property
    def pairs(self) -> PairText | None:
        """The text as pairs of sentences; None if it is one text."""
        return self.text if isinstance(self.text, PairText) else None

    def regularizers_of(self, index: int) -> tuple[Regularizer, ...]:
        """The regularizers that a model was trained with."""
        return tuple(self.regularizers[index]) if self.regularizers else ()

    def stream(self, split: str) -> Tensor:
        """Return a split's tokens."""
        return self.text.stream(split)

    def evaluator(self, name: str) -> Evaluator:
        """One of the chosen evaluators."""
        if name not in self.evaluators:
            raise CombinationError(
                f"an evaluator builds on the evaluator '{name}', which was not chosen. Instead: "
                f"add evaluator.{name} to the config. Chosen: {', '.join(self.evaluators)}."
            )
        return self.evaluators[name]

    def log_probs(self, name: str, split: str) -> np.ndarray:
        """The log-probabilities of one of the chosen evaluators, computed once."""
        evaluator = self.evaluator(name)
        # A piece of one step: a trial that was killed after it does not compute it again.
        return self.pieces.folded(
            f"{name}/{split}", 1, lambda number, none: evaluator.token_log_probs(self, split)
        )


class Evaluator(ABC):
    """Built as `Evaluator(config)`. It restores any weights that it changes."""

    reads: frozenset[str] = frozenset({TEXT})  # a text, pairs of sentences, or counts
    packages: tuple[str, ...] = ()  # which a worker may lack
    gives_log_probs = True  # False: it has other metrics, and cannot be a trial's first evaluator

    def check(self, model: LanguageModel) -> None:  # noqa: B027 (most judge every model)
        """Raise a `CombinationError` for a model that it can say nothing about. Called when a study
        is planned, with a model that has no values yet."""

    def check_text(self, text: TrainingText) -> None:  # noqa: B027 (most read every text)
        """Raise a `CorpusError` for a text, or for files beside it, that it cannot read. Called
        before anything trains."""

    @abstractmethod
    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        """log p of every token after the first, in float64, given all tokens before it."""

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        """The metrics recorded for a split, by name."""
        nll = -float(np.mean(reading.log_probs(name, split)))
        return {"nll": nll, "ppl": perplexity(nll)}


def no_log_probs(name: str, does: str) -> CombinationError:
    """The error of an evaluator that is asked for log-probabilities and gives none."""
    return CombinationError(
        f"evaluator '{name}' {does} and has no log-probabilities of tokens, so no other evaluator "
        "can build on it."
    )


def mean_over_models(
    models: Sequence[LanguageModel], log_probs: Callable[[LanguageModel], np.ndarray]
) -> np.ndarray:
    """The log of the models' mean probability."""
    return log_mean_exp(np.stack([log_probs(model) for model in models]))


def log_mean_exp(log_probs_MN: np.ndarray) -> np.ndarray:
    """The log of the mean probability over the members; nan if a member has diverged."""
    with np.errstate(invalid="ignore"):
        return np.logaddexp.reduce(log_probs_MN, axis=0) - np.log(len(log_probs_MN))
