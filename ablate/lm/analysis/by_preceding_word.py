"""Perplexity of the tokens after each of the most common words, for one trial or two.

Takase et al. 2017 expect (Section 3) that their gate helps most where the input word strongly
constrains the output, as after prepositions, whose largest gates they print (Table 5). With two
trials, d is the second trial's loss minus the first's on the same tokens, and its mean after a
word w,

    D(w) = sum over sentences of d after w / number of tokens after w,

gets a confidence interval over blocks of neighbouring sentences, as by `ablate trial tokens`
(`compare/statistics/tokens.py`). Every word has its own interval, not corrected for the number of
words. Words that occur in fewer than ten sentences, or in one block, have none, and no word has one
in a text of fewer than forty sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.compare.plots import style
from ablate.compare.statistics.tokens import ratio_intervals
from ablate.config.fields import setting
from ablate.config.metrics import PERPLEXITY
from ablate.lm.analysis import Analysis, Cell, Finding
from ablate.lm.analysis.by_frequency import cells, columns, legend
from ablate.lm.analysis.drawing import label
from ablate.lm.analysis.subject import Subject, check_same_text, distinct_names
from ablate.lm.data.encoding import UNKNOWN

MIN_SENTENCES = 10  # with a word, for an interval


@dataclass(frozen=True, kw_only=True)
class ByPrecedingWordOptions:
    """The preceding words, and the confidence intervals."""

    split: str = setting("valid", doc="split to analyze", choices=("valid", "test"))
    words: tuple[str, ...] = setting(
        (), doc="preceding words, comma-separated; none: the most common in training"
    )
    num: int = setting(20, doc="number of most common words", low=1)
    confidence: float = setting(0.95, doc="level of the intervals", low=0.5, high=0.999)


def by_sentence(
    values: np.ndarray, sentences: np.ndarray, groups: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Sums of the tokens' values by sentence and group, [S, K]; group -1 is ignored."""
    counted = groups >= 0
    cells = sentences[counted] * shape[1] + groups[counted]
    return np.bincount(cells, values[counted], minlength=shape[0] * shape[1]).reshape(shape)


@dataclass(frozen=True)
class After:
    """The tokens after one word."""

    word: str
    num: int
    nll: tuple[float, ...]  # of each trial
    interval: tuple[float, float] | None  # of the second trial's nll minus the first's

    def row(self) -> list[Cell]:
        """The table's row: word, number, losses, and the interval of a pair."""
        bounds = [] if len(self.nll) == 1 else self.interval or (None, None)
        return [self.word, self.num, *cells(self.nll), *bounds]


def run(*subjects: Subject, options: ByPrecedingWordOptions) -> Finding:
    """Perplexity after the most common words, and the difference of two trials."""
    check_same_text(subjects)
    names = distinct_names(subjects)
    words = _after(subjects, options)
    two = len(subjects) == 2
    bounds = ["low", "high"] if two else []
    level = f"{100 * options.confidence:g}%"
    about = [f"low, high: {level} interval per word, over blocks of sentences"] if two else []

    def draw(axes: Any) -> None:
        (_draw_difference if two else _draw_perplexity)(axes, words)

    return Finding(
        title=f"Perplexity by preceding word: {'; '.join(names)}",
        columns=["after", "tokens", *columns(len(subjects)), *bounds],
        rows=[word.row() for word in words],
        notes=[*legend(names), *about],
        draw=draw,
    )


def _after(subjects: Sequence[Subject], options: ByPrecedingWordOptions) -> list[After]:
    """The results after each of the words, and after all words together."""
    first = subjects[0]
    stream = first.stream(options.split)
    words = _words(first, options)
    group_V = np.full(first.corpus.num_words, -1)
    group_V[words] = np.arange(len(words))
    before, groups = stream[:-1], group_V[stream[:-1]]
    sentences = np.cumsum(before == first.corpus.eos)  # an <eos> predicts the next one's first word

    def sums_of(values: np.ndarray) -> np.ndarray:
        shape = (int(sentences[-1]) + 1, len(words))
        sums_SK = by_sentence(values, sentences, groups, shape)
        return np.column_stack([sums_SK, np.bincount(sentences, values)])  # and after any word

    counts_SK = sums_of(np.ones(len(groups)))
    sums = [sums_of(-subject.log_probs(options.split)) for subject in subjects]
    bounds = _bounds(sums, counts_SK, options) if len(sums) == 2 else [None] * (len(words) + 1)
    results = []
    for group, name in enumerate([*map(first.word, words), "(any word)"]):
        num = int(counts_SK[:, group].sum())
        if num:
            nll = tuple(float(sums_SK[:, group].sum() / num) for sums_SK in sums)
            results.append(After(name, num, nll, bounds[group]))
    return results


def _words(subject: Subject, options: ByPrecedingWordOptions) -> list[int]:
    if options.words:
        return list(dict.fromkeys(subject.token(word.strip()) for word in options.words))
    return subject.commonest(options.num, without=[UNKNOWN])


def _bounds(
    sums: Sequence[np.ndarray], counts_SK: np.ndarray, options: ByPrecedingWordOptions
) -> list[tuple[float, float] | None]:
    """The intervals of the groups; None for groups in too few sentences, or of too short a text."""
    enough_K = (counts_SK > 0).sum(0) >= MIN_SENTENCES
    difference_SK = (sums[1] - sums[0])[:, enough_K]
    found = iter(
        ratio_intervals(difference_SK, counts_SK[:, enough_K], alpha=1 - options.confidence)
    )
    return [next(found) if enough else None for enough in enough_K]


def _draw_difference(axes: Any, words: Sequence[After]) -> None:
    axes.axvline(0, color=style.GREY, linewidth=1)
    for y, word in enumerate(words):
        middle = word.nll[1] - word.nll[0]
        if word.interval is not None:
            axes.plot(word.interval, [y, y], color=style.BLUE, linewidth=2)
        axes.plot(middle, y, "o", color=style.BLUE, markersize=4)
    _label_words(axes, words)
    axes.set(xlabel="second minus first (nats per token); left of 0: the second is better")


def _draw_perplexity(axes: Any, words: Sequence[After]) -> None:
    values = [PERPLEXITY.show(word.nll[0]) for word in words]
    axes.barh(range(len(words)), values, color=style.BLUE)
    _label_words(axes, words)
    axes.set(xlabel="perplexity of the next token")


def _label_words(axes: Any, words: Sequence[After]) -> None:
    labels = [label(word.word) for word in words]
    axes.set_yticks(range(len(words)), labels, fontsize="small" if len(words) > 15 else None)
    axes.set(ylim=(len(words) - 0.5, -0.5), ylabel="after")  # the first word on top


ANALYSIS = Analysis(
    run=run,
    options=ByPrecedingWordOptions,
    paper="takase2017iog",
    equation="Section 3, Table 5",
    num_subjects=(1, 2),
)
