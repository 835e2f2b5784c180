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

from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.compare.plots import style
from ablate.config.fields import setting
from ablate.errors import CombinationError
from ablate.lm.analysis import Analysis, Finding
from ablate.lm.analysis.drawing import label
from ablate.lm.analysis.subject import Subject, distinct_names
from ablate.lm.components.evaluator.predictions import (
    AUTO,
    LOG_PROBS,
    LOGITS,
    Spectrum,
    check_memory,
)
from ablate.lm.components.evaluator.predictions import spectrum as spectrum_of


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """The matrix, its size, and which singular values count as zero."""

    split: str = setting("valid", doc="split of the contexts", choices=("valid", "test"))
    num: int = setting(2000, doc="number of contexts, from the start of the split", low=1)
    matrix: str = setting(
        AUTO,
        doc="logits or log_probs; auto: logits for one softmax without a gate, else log_probs",
        choices=(AUTO, LOGITS, LOG_PROBS),
    )
    tolerance: float | None = setting(
        None,
        doc="singular values up to this share of the largest count as zero; "
        "none: float64's resolution times the longer side (the rule of numpy and Matlab)",
        low=0,
        high=1,
    )


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
        # Values far below the tolerance are rounding, and would fill most of the axis.
        floor = min(spectrum.tolerance for spectrum in spectra) / 1e3
        axes.set(yscale="log", ylim=(floor, 2), xlabel="singular value (dotted: the rank)")
        axes.set(ylabel="share of the largest")

    return Finding(
        title=f"Rank over {options.split}: {'; '.join(names)}",
        columns=["trial", "matrix", "contexts", "words", "rank", "limit", "next/largest"],
        rows=[_row(name, spectrum) for name, spectrum in zip(names, spectra, strict=True)],
        notes=[
            "limit: largest rank that the formula and the matrix size allow. next/largest: the "
            "first singular value that is not counted."
        ],
        draw=draw,
    )


def _row(name: str, spectrum: Spectrum) -> list[str | int | float | None]:
    values, rank = spectrum.singular_values, spectrum.rank
    left = float(values[rank] / values[0]) if rank < len(values) else None
    return [name, spectrum.kind, *spectrum.shape, rank, spectrum.limit, left]


def _spectrum(subject: Subject, options: RankOptions) -> Spectrum:
    num = min(options.num, len(subject.stream(options.split)) - 1)
    # Before the model reads anything: the matrix is contexts by words, in float64.
    check_memory("num", num, subject.corpus.num_words)
    try:
        passed = subject.passes(options.split, options.num)
        return spectrum_of(passed, options.matrix, options.tolerance)
    except CombinationError as error:
        raise CombinationError(f"trial {subject.id}: {error}") from None


ANALYSIS = Analysis(
    run=run,
    options=RankOptions,
    paper="takase2018doc",
    equation="Table 5",
    num_subjects=(1, 8),
)
