"""Perplexity of the tokens after each of the commonest words, of one trial or two.

Takase et al. 2017 (Section 5) say that their gate helps most where the input word decides much
about the output, as after prepositions. With two trials, d is the second's loss less the first's on
the same tokens, and its mean after a word w,

    D(w) = sum over sentences of d after w / number of tokens after w,

gets an interval by the paired bootstrap over sentences: whole sentences are drawn with replacement,
each with all its tokens of both trials, and D(w) is computed anew from each draw; the interval runs
between the percentiles. Every word has its own, not corrected for there being many. A word that
occurs in fewer than ten sentences gets none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.analysis import Analysis, Cell, Finding
from ablate.analysis.by_frequency import columns, legend
from ablate.analysis.drawing import COLOURS, GREY, label
from ablate.analysis.subject import Subject, check_same_text, distinct_names
from ablate.data.encoding import UNKNOWN
from ablate.fields import setting

FEWEST = 10  # sentences with a word, for an interval
AT_A_TIME = 2_000_000  # numbers of draws by sentences held at once


@dataclass(frozen=True, kw_only=True)
class ByPrecedingWordOptions:
    """After which words, and how sure."""

    split: str = setting("valid", doc="whose tokens are looked at", choices=("valid", "test"))
    words: tuple[str, ...] = setting(
        (), doc="preceding words, with commas between; none: the commonest in training"
    )
    num: int = setting(20, doc="how many of the commonest", low=1)
    confidence: float = setting(0.95, doc="of the intervals", low=0.5, high=0.999)
    draws: int = setting(2000, doc="bootstrap draws", low=100)


def by_sentence(
    values: np.ndarray, sentences: np.ndarray, groups: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Sums of the tokens' values by sentence and group, [S, K]; groups of -1 are left out."""
    kept = groups >= 0
    places = sentences[kept] * shape[1] + groups[kept]
    return np.bincount(places, values[kept], minlength=shape[0] * shape[1]).reshape(shape)


def bootstrap_ratios(
    sums_SK: np.ndarray, counts_SK: np.ndarray, draws: int, seed: int = 0
) -> np.ndarray:
    """Sum over count of K groups, from sentences drawn with replacement, [draws, K].

    NaN where a draw has no token of a group.
    """
    num = len(sums_SK)
    rng = np.random.default_rng(seed)
    size = max(1, AT_A_TIME // num)
    found = []
    for start in range(0, draws, size):
        times_RS = rng.multinomial(num, [1 / num] * num, size=min(size, draws - start)).astype(
            float
        )
        sums_RK, counts_RK = times_RS @ sums_SK, times_RS @ counts_SK
        missing = np.full(sums_RK.shape, np.nan)
        found.append(np.divide(sums_RK, counts_RK, out=missing, where=counts_RK > 0))
    return np.concatenate(found)


def intervals(ratios_RK: np.ndarray, confidence: float) -> np.ndarray:
    """Low and high of each group, [2, K]."""
    tail = (1 - confidence) / 2
    return np.nanquantile(ratios_RK, [tail, 1 - tail], axis=0)


@dataclass(frozen=True)
class After:
    """The tokens after one word."""

    word: str
    num: int
    nll: tuple[float, ...]  # of each trial
    interval: tuple[float, float] | None  # of the second's nll less the first's

    def row(self) -> list[Cell]:
        perplexities: list[Cell] = [math.exp(min(each, 700)) for each in self.nll]
        if len(self.nll) == 1:
            return [self.word, self.num, *perplexities]
        low, high = self.interval or (None, None)
        return [self.word, self.num, *perplexities, self.nll[1] - self.nll[0], low, high]


def run(*subjects: Subject, options: ByPrecedingWordOptions) -> Finding:
    """Perplexity after the commonest words; two trials' difference."""
    check_same_text(subjects)
    names = distinct_names(subjects)
    found = _after(subjects, options)
    two = len(subjects) == 2
    bounds = ["low", "high"] if two else []
    share = f"{100 * options.confidence:g}%"
    about = [f"low, high: {share} of each by itself, over sentences drawn anew"] if two else []

    def draw(axes: Any) -> None:
        (_draw_difference if two else _draw_perplexity)(axes, found)

    return Finding(
        title=f"Perplexity by preceding word: {'; '.join(names)}",
        columns=["after", "tokens", *columns(len(subjects)), *bounds],
        rows=[each.row() for each in found],
        notes=[*legend(names), *about],
        draw=draw,
    )


def _after(subjects: Sequence[Subject], options: ByPrecedingWordOptions) -> list[After]:
    """Of every word that precedes a token of the split, and of all words together."""
    first = subjects[0]
    stream = first.stream(options.split)
    words = _words(first, options)
    place_V = np.full(first.corpus.num_words, -1)
    place_V[words] = np.arange(len(words))
    before, groups = stream[:-1], place_V[stream[:-1]]
    sentences = np.cumsum(before == first.corpus.eos)
    shape = (int(sentences[-1]) + 1, len(words))
    log_probs = [subject.log_probs(options.split) for subject in subjects]
    counts_SK = by_sentence(np.ones(len(groups)), sentences, groups, shape)
    sums = [by_sentence(-each, sentences, groups, shape) for each in log_probs]
    bounds = _bounds(sums, counts_SK, options) if len(sums) == 2 else [None] * len(words)
    found = []
    for place, token in enumerate(words):
        num = int(counts_SK[:, place].sum())
        if num:
            nll = tuple(float(each[:, place].sum() / num) for each in sums)
            found.append(After(first.word(token), num, nll, bounds[place]))
    everything = tuple(float(-each.mean()) for each in log_probs)
    whole = np.zeros(len(groups), int)
    one = (shape[0], 1)
    counts_S1 = by_sentence(np.ones(len(groups)), sentences, whole, one)
    sums = [by_sentence(-each, sentences, whole, one) for each in log_probs]
    (interval,) = _bounds(sums, counts_S1, options) if len(sums) == 2 else [None]
    return [*found, After("(any word)", len(groups), everything, interval)]


def _words(subject: Subject, options: ByPrecedingWordOptions) -> list[int]:
    if options.words:
        tokens = [subject.token(word.strip()) for word in options.words]
        return list(dict.fromkeys(tokens))
    known = subject.corpus.vocabulary
    unknown = [known.index(UNKNOWN)] if UNKNOWN in known else []
    return subject.commonest(options.num, without=unknown)


def _bounds(
    sums: Sequence[np.ndarray], counts_SK: np.ndarray, options: ByPrecedingWordOptions
) -> list[tuple[float, float] | None]:
    """Intervals of the groups that enough sentences have."""
    enough_K = (counts_SK > 0).sum(0) >= FEWEST
    difference_SK = (sums[1] - sums[0])[:, enough_K]
    ratios_RK = bootstrap_ratios(difference_SK, counts_SK[:, enough_K], options.draws)
    lows_and_highs = iter(intervals(ratios_RK, options.confidence).T)
    return [_pair(*next(lows_and_highs)) if enough else None for enough in enough_K]


def _pair(low: float, high: float) -> tuple[float, float]:
    return float(low), float(high)


def _draw_difference(axes: Any, found: Sequence[After]) -> None:
    axes.axvline(0, color=GREY, linewidth=1)
    for place, each in enumerate(found):
        middle = each.nll[1] - each.nll[0]
        if each.interval is not None:
            axes.plot(each.interval, [place, place], color=COLOURS[0], linewidth=2)
        axes.plot(middle, place, "o", color=COLOURS[0], markersize=4)
    _name(axes, found)
    axes.set(xlabel="second less first (nats a token); left of 0: the second is better")


def _draw_perplexity(axes: Any, found: Sequence[After]) -> None:
    values = [math.exp(min(each.nll[0], 700)) for each in found]
    axes.barh(range(len(found)), values, color=COLOURS[0])
    _name(axes, found)
    axes.set(xlabel="perplexity of the next token")


def _name(axes: Any, found: Sequence[After]) -> None:
    labels = [label(each.word) for each in found]
    axes.set_yticks(range(len(found)), labels, fontsize="small" if len(found) > 15 else None)
    axes.set(ylim=(len(found) - 0.5, -0.5), ylabel="after")


ANALYSIS = Analysis(
    run=run,
    options=ByPrecedingWordOptions,
    paper="takase2017iog",
    equation="Section 5",
    num_subjects=(1, 2),
)
