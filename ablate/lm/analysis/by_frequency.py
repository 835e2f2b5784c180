"""Perplexity by a word's frequency in the training text, for one trial or two.

    ppl(class) = exp(-mean of log p over the split's tokens whose word is in the class)

from the log-probabilities that every trial saves. Classes are powers of ten of the training count:
0, 1 to 9, 10 to 99, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.config.fields import setting
from ablate.config.metrics import PERPLEXITY
from ablate.lm.analysis import Analysis, Cell, Finding
from ablate.lm.analysis.drawing import bars, scale
from ablate.lm.analysis.subject import Subject, check_same_text, distinct_names


@dataclass(frozen=True, kw_only=True)
class ByFrequencyOptions:
    """The split."""

    split: str = setting("valid", doc="split to analyze", choices=("valid", "test"))


def frequency_class(counts: np.ndarray) -> np.ndarray:
    """0 for a count of 0, else its number of digits."""
    bounds = 10 ** np.arange(19)  # 10**18 is the largest power of ten in an int64
    return np.searchsorted(bounds, counts, side="right")


def class_name(number: int) -> str:
    """Return the frequencies of a class, as `10 to 99`."""
    if number == 0:
        return "0"
    return f"{10 ** (number - 1):,} to {10**number - 1:,}"


def mean_by_group(values: np.ndarray, groups: np.ndarray, num: int) -> np.ndarray:
    """The mean of each group's values; NaN for an empty group."""
    totals = np.bincount(groups, values, minlength=num)
    sizes = np.bincount(groups, minlength=num)
    return np.divide(totals, sizes, out=np.full(num, np.nan), where=sizes > 0)


def run(*subjects: Subject, options: ByFrequencyOptions) -> Finding:
    """Perplexity by the word's frequency in the training text."""
    check_same_text(subjects)
    first, names = subjects[0], distinct_names(subjects)
    class_V = frequency_class(first.corpus.counts().numpy())
    targets = first.stream(options.split)[1:]  # nothing predicts the first token
    groups, num = class_V[targets], int(class_V.max()) + 1
    sizes = np.bincount(groups, minlength=num)
    types = np.bincount(class_V[np.unique(targets)], minlength=num)  # each word counted once
    log_probs = [subject.log_probs(options.split) for subject in subjects]
    nll = [-mean_by_group(values, groups, num) for values in log_probs]
    rows: list[list[Cell]] = [
        [class_name(c), int(types[c]), int(sizes[c]), *cells([by_class[c] for by_class in nll])]
        for c in np.flatnonzero(sizes).tolist()
    ]
    classes = [str(row[0]) for row in rows]
    perplexities = {
        name: np.exp(by_class[sizes > 0]).tolist()
        for name, by_class in zip(names, nll, strict=True)
    }
    overall = cells([-values.mean() for values in log_probs])
    # Of all tokens, and not a mean of the classes' means.
    rows.append(["all", int(types.sum()), len(targets), *overall])

    def draw(axes: Any) -> None:
        bars(axes, classes, perplexities)
        scale(axes, (value for series in perplexities.values() for value in series))
        axes.set(xlabel="count in the training text", ylabel=f"{options.split} ppl")

    return Finding(
        title=f"Perplexity by word frequency: {'; '.join(names)}",
        columns=["training count", "words", "tokens", *columns(len(subjects))],
        rows=rows,
        notes=legend(names),
        draw=draw,
    )


def columns(num: int) -> list[str]:
    """Return the headings for one trial, or for a pair."""
    return ["ppl"] if num == 1 else ["first ppl", "second ppl", "nats"]


def legend(names: list[str]) -> list[str]:
    """Explain the columns of two trials."""
    if len(names) == 1:
        return []
    return [
        f"first: {names[0]}; second: {names[1]}",
        "nats: the second trial's mean loss minus the first's; below 0, the second is better.",
    ]


def cells(nll: Sequence[float]) -> list[Cell]:
    """The perplexities of one trial or two, and the difference of the losses of two."""
    perplexities: list[Cell] = [PERPLEXITY.show(float(loss)) for loss in nll]
    return perplexities if len(nll) == 1 else [*perplexities, float(nll[1] - nll[0])]


ANALYSIS = Analysis(run=run, options=ByFrequencyOptions, num_subjects=(1, 2))
