"""Numerical rank of a model's logits or log-probabilities (Takase et al. 2018, Table 5).

    rank = number of singular values above tolerance * the largest,    A[context, word]

in float64, with the trained weights. A single softmax has logits A = H W' + 1 b' of rank at most D,
or D + 1 with a bias; its log-probabilities subtract a number from every row, which adds one more.
(The paper's 401 for 400 units fits the logits, not the log-probabilities that its caption names.) A
mixture has no logits of its own, and a gate multiplies the logits elementwise: neither has such a
limit, and for both the log-probabilities are used.

The rank is also at most the number of contexts, which are the first tokens of the split: to see
full rank takes as many contexts as the vocabulary has words.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.analysis import Analysis, Finding
from ablate.analysis.drawing import label
from ablate.analysis.subject import Subject, distinct_names
from ablate.compare.plots import style
from ablate.config.fields import setting
from ablate.errors import CombinationError, ConfigError
from ablate.model.flow import Mixture
from ablate.model.mixture import expert_logits, log_probs

LOGITS, LOG_PROBS = "logits", "log_probs"
COPIES = 3  # of the matrix in memory while its singular values are computed


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """The matrix, its size, and which singular values count as zero."""

    split: str = setting("valid", doc="split of the contexts", choices=("valid", "test"))
    num: int = setting(2000, doc="number of contexts, from the start of the split", low=1)
    matrix: str = setting(
        "auto",
        doc="logits or log_probs; auto: logits for one softmax without a gate, else log_probs",
        choices=("auto", LOGITS, LOG_PROBS),
    )
    tolerance: float | None = setting(
        None,
        doc="singular values up to this share of the largest count as zero; "
        "none: float64's resolution times the longer side (the rule of numpy and Matlab)",
        low=0,
        high=1,
    )


def numerical_rank(singular_values: np.ndarray, tolerance: float) -> int:
    """The number of values above `tolerance` times the largest."""
    return int((singular_values > tolerance * singular_values.max(initial=0.0)).sum())


def default_tolerance(shape: tuple[int, ...]) -> float:
    return max(shape) * float(np.finfo(np.float64).eps)


def highest_rank(mixture: Mixture, kind: str) -> int | None:
    """The largest rank that the formula allows; None if there is no limit."""
    if mixture.log_prior_NJ is not None or mixture.gate is not None:
        return None
    extra = (mixture.bias_V is not None) + (kind == LOG_PROBS)
    return mixture.weight_VE.shape[1] + extra


def run(*subjects: Subject, options: RankOptions) -> Finding:
    """Rank of the logits or log-probabilities, against its limit."""
    spectra = [_spectrum(subject, options) for subject in subjects]
    names = distinct_names(subjects)

    def draw(axes: Any) -> None:
        for index, (name, spectrum) in enumerate(zip(names, spectra, strict=True)):
            values, look = spectrum.singular_values, style.line(index)
            numbers = np.arange(1, len(values) + 1)
            axes.plot(numbers, values / values[0], label=label(name), **look)
            axes.axvline(spectrum.rank, color=look["color"], linestyle=":", linewidth=1)
        largest = max(spectrum.tolerance for spectrum in spectra)
        axes.axhline(
            largest, color=style.GREY, linestyle="--", linewidth=1, label="counted as zero"
        )
        floor = min(spectrum.tolerance for spectrum in spectra) / 1e3
        axes.set(yscale="log", ylim=(floor, 2), xlabel="singular value (dotted: the rank)")
        axes.set(ylabel="share of the largest")

    return Finding(
        title=f"Rank over {options.split}: {'; '.join(names)}",
        columns=["trial", "matrix", "contexts", "words", "rank", "limit", "next/largest"],
        rows=[spectrum.row(name) for name, spectrum in zip(names, spectra, strict=True)],
        notes=[
            "limit: largest rank that the formula and the matrix size allow. next/largest: the "
            "first singular value that is not counted."
        ],
        draw=draw,
    )


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
        return numerical_rank(self.singular_values, self.tolerance)

    def row(self, name: str) -> Sequence[str | int | float | None]:
        values, rank = self.singular_values, self.rank
        left = float(values[rank] / values[0]) if rank < len(values) else None
        return [name, self.kind, *self.shape, rank, self.limit, left]


def _spectrum(subject: Subject, options: RankOptions) -> Spectrum:
    _check_memory(min(options.num, len(subject.stream(options.split)) - 1), subject)
    rows: list[Tensor] = []
    kind, limit = "", None
    for passed in subject.passes(options.split, options.num):
        if not rows:
            kind = _kind(passed.mixture, options.matrix, subject)
            limit = highest_rank(passed.mixture, kind)
        rows.append(_values(passed.mixture, kind))
    matrix_NV = torch.cat(rows)
    values = torch.linalg.svdvals(matrix_NV).numpy()
    num, words = matrix_NV.shape
    tolerance = options.tolerance
    return Spectrum(
        kind=kind,
        shape=(num, words),
        singular_values=values,
        limit=min(num, words) if limit is None else min(num, words, limit),
        tolerance=default_tolerance((num, words)) if tolerance is None else tolerance,
    )


def _values(mixture: Mixture, kind: str) -> Tensor:
    if kind == LOG_PROBS:
        return log_probs(mixture)
    return expert_logits(mixture, slice(None)).squeeze(1)


def _kind(mixture: Mixture, wanted: str, subject: Subject) -> str:
    single = mixture.log_prior_NJ is None
    if wanted == "auto":
        return LOGITS if single and mixture.gate is None else LOG_PROBS
    if wanted == LOGITS and not single:
        raise CombinationError(
            f"trial {subject.id} is a mixture: its experts have logits, the mixture has none. "
            "Instead: matrix=log_probs."
        )
    return wanted


def _check_memory(num: int, subject: Subject) -> None:
    """Refuse a matrix that would not fit into memory."""
    words = subject.corpus.num_words
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = memory // (COPIES * 8 * words)
    if num > most:
        raise ConfigError(
            f"num = {num}: a matrix of {num} contexts by {words} words takes "
            f"{num * words * 8 * COPIES / 1e9:.1f} GB, and this machine has {memory / 1e9:.1f}. "
            f"Instead: num up to {most}."
        )


ANALYSIS = Analysis(
    run=run,
    options=RankOptions,
    paper="takase2018doc",
    equation="Table 5",
    num_subjects=(1, 8),
)
