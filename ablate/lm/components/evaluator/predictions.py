"""The numerical rank of a model's predictions (Takase et al. 2018, Table 5).

    rank = number of singular values above tolerance * the largest,    A[context, word]

in float64, of the logits of a single softmax without a gate, otherwise of the log-probabilities;
`ablate trial analyze rank` says why. The rank is at most the number of contexts, which are the
first tokens of the split: to see full rank takes as many contexts as the vocabulary has words. An
ensemble has no such number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from ablate.config.metrics import RANK
from ablate.errors import ConfigError
from ablate.lm.components import (
    CombinationError,
    Evaluator,
    LanguageModel,
    Mixture,
    Pass,
    Reading,
    register,
    setting,
)
from ablate.lm.model.evaluator import no_log_probs
from ablate.lm.model.mixture import expert_logits, log_probs
from ablate.lm.model.reading import in_float64, read

AUTO, LOGITS, LOG_PROBS = "auto", "logits", "log_probs"
COPIES = 3  # of the matrix in memory while its singular values are computed


@dataclass(frozen=True, kw_only=True)
class PredictionsConfig:
    """The size of the matrix."""

    contexts: int = setting(2000, doc="number of contexts, from the start of the split", low=1)


@dataclass(frozen=True)
class Spectrum:
    """The singular values of one matrix, and its rank."""

    kind: str
    shape: tuple[int, int]
    singular_values: np.ndarray
    limit: int
    tolerance: float

    @property
    def rank(self) -> int:
        """The number of singular values above the tolerance."""
        return numerical_rank(self.singular_values, self.tolerance)


def numerical_rank(singular_values: np.ndarray, tolerance: float) -> int:
    """The number of values above `tolerance` times the largest."""
    return int((singular_values > tolerance * singular_values.max(initial=0.0)).sum())


def default_tolerance(shape: tuple[int, ...]) -> float:
    """Return numpy's tolerance for a matrix' rank, relative to its norm."""
    return max(shape) * float(np.finfo(np.float64).eps)


def highest_rank(mixture: Mixture, kind: str) -> int | None:
    """The largest rank that the formula allows; None if there is no limit."""
    if mixture.log_prior_NJ is not None or mixture.gate is not None or mixture.cap is not None:
        return None
    extra = (mixture.bias_V is not None) + (kind == LOG_PROBS)
    return mixture.weight_VE.shape[1] + extra


def spectrum(
    passed: Iterable[Pass], matrix: str = AUTO, tolerance: float | None = None
) -> Spectrum:
    """The singular values of the matrix with a row for each token of these passes."""
    rows: list[Tensor] = []
    kind, limit = "", None
    for each in passed:
        if not rows:
            kind = _kind(each.mixture, matrix)
            limit = highest_rank(each.mixture, kind)
        rows.append(matrix_of(each.mixture, kind))
    matrix_NV = torch.cat(rows)
    num, words = matrix_NV.shape
    return Spectrum(
        kind=kind,
        shape=(num, words),
        singular_values=torch.linalg.svdvals(matrix_NV).numpy(),
        limit=min(num, words) if limit is None else min(num, words, limit),
        tolerance=default_tolerance((num, words)) if tolerance is None else tolerance,
    )


def matrix_of(mixture: Mixture, kind: str) -> Tensor:
    """The logits or the log-probabilities, [N, V]."""
    if kind == LOG_PROBS:
        return log_probs(mixture)
    return expert_logits(mixture, slice(None)).squeeze(1)


def _kind(mixture: Mixture, wanted: str) -> str:
    single = mixture.log_prior_NJ is None
    if wanted == AUTO:
        return LOGITS if single and mixture.gate is None else LOG_PROBS
    if wanted == LOGITS and not single:
        raise CombinationError(
            "a mixture's experts have logits, the mixture has none. Instead: matrix=log_probs."
        )
    return wanted


def check_memory(option: str, num: int, words: int) -> None:
    """Refuse a matrix that would not fit into memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = memory // (COPIES * 8 * words)
    if num > most:
        raise ConfigError(
            f"{option} = {num}: a matrix of {num} contexts by {words} words takes "
            f"{num * words * 8 * COPIES / 1e9:.1f} GB, and this machine has {memory / 1e9:.1f}. "
            f"Instead: {option} up to {most}."
        )


@register(
    "evaluator",
    "predictions",
    config=PredictionsConfig,
    paper="takase2018doc",
    equation="Table 5",
    metrics=(RANK,),
)
@final
class Predictions(Evaluator):
    """The rank of the matrix of predictions; `num_contexts` is how many rows it has."""

    gives_log_probs = False

    def __init__(self, config: PredictionsConfig) -> None:
        self.config = config

    def check(self, model: LanguageModel) -> None:
        check_memory(
            "evaluator.predictions.contexts", self.config.contexts, model.shapes.vocabulary
        )

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        raise no_log_probs("predictions", "gives a rank")

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        if len(reading.models) > 1:
            return {}
        contexts_N = reading.stream(split)[: self.config.contexts + 1]  # the last is only predicted
        model = reading.cached("in_float64", lambda: in_float64(reading.models[0]))
        found = spectrum(read(model, contexts_N))
        return {RANK.name: float(found.rank), "num_contexts": float(found.shape[0])}
