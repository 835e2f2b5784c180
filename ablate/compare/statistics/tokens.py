"""Trials compared token by token, from the log-probabilities that each saved: nothing is trained.
Trials that wrote sentences are compared by the scores of these, in the same way.

    mean_probability     of an ensemble: log of the mean of p
    mixture_weights      of an interpolation, found by EM (the likelihood is concave in them)
    sentence_difference  the difference of two trials' mean nats a token
    ratio_intervals      several means a token, as of differences after several words
    score_difference     the difference of two trials' scores of a text

Words of a sentence are not independent, and sentences of one text are not independent of their
neighbours: so a text of n sentences is B = sqrt(n) blocks of sentences that follow each other. (By
single sentences, the 95% interval covers 84% where neighbours correlate by .3, and 66% by .6.) The
value of a block is what it adds to the value v of the whole text, the jackknife's

    v + (B - 1) (mean of all v without one block - v without this block)

for a ratio of nats over tokens as for a score, which is computed from summed counts. Interval and p
are those of `two_noises.py`, of one training. docs/calibration.md has how often they cover. Below
MIN_SENTENCES there is neither.

This compares two trained models on text like this one, and not two techniques, whose trials differ
by their seeds as well: for these there is the study's table. Pure: arrays in, numbers out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.compare.statistics import two_noises

MIN_SENTENCES = 40
EM_STEPS = 500  # at most
CLOSE = 1e-10  # nats a token: EM stops when a step gains less


@dataclass(frozen=True, kw_only=True)
class SentenceDifference:
    """The first trial minus the second, in nats a token or in points of a score."""

    mean: float
    interval: tuple[float, float] | None  # like p, None below MIN_SENTENCES
    p: float | None
    num_sentences: int
    num_better: int  # sentences that are likelier, or score higher, under the first


def sentences(tokens: np.ndarray, eos: int, first: int = 1) -> np.ndarray:
    """The number of the sentence of each judged token: all from the position `first` on.

    A sentence ends with its `<eos>`; the last may lack one.
    """
    ends = np.asarray(tokens) == eos
    starts = np.cumsum(ends) - ends  # the sentences that have ended before this token
    numbers = starts[first:]
    # From 0 on, also if a sentence has ended before the first judged token.
    return numbers - (numbers[0] if len(numbers) else 0)


def mean_probability(log_probs: Sequence[np.ndarray]) -> np.ndarray:
    """log of the mean probability of each token: an ensemble without running it."""
    return mixed(log_probs, [1 / len(log_probs)] * len(log_probs))


def mixed(log_probs: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """log sum_m w_m p_m, for each token."""
    stacked = np.stack([np.asarray(one, np.float64) for one in log_probs])
    with np.errstate(divide="ignore"):  # a weight of 0 leaves its model out
        weighted = stacked + np.log(np.asarray(weights, np.float64))[:, None]
    return np.logaddexp.reduce(weighted, axis=0)


def mixture_weights(log_probs: Sequence[np.ndarray]) -> list[float]:
    """The weights that make these tokens likeliest."""
    stacked = np.stack([np.asarray(one, np.float64) for one in log_probs])
    weights, before = np.full(len(stacked), 1 / len(stacked)), -np.inf
    for _ in range(EM_STEPS):
        # A weight may reach 0, of which numpy's logarithm warns.
        joint = stacked + np.log(np.maximum(weights, 1e-300))[:, None]
        total = np.logaddexp.reduce(joint, axis=0)
        weights = np.exp(joint - total).mean(1)
        if total.mean() - before < CLOSE:
            break
        before = total.mean()
    return [float(weight) for weight in weights / weights.sum()]


def sentence_difference(
    first: np.ndarray, second: np.ndarray, numbers: np.ndarray, *, alpha: float = 0.05
) -> SentenceDifference:
    """How much lower the first's loss is, and how that varies over other sentences."""
    deltas = np.asarray(second, np.float64) - np.asarray(first, np.float64)  # of losses: -log p
    rows = np.stack([np.bincount(numbers, deltas), np.bincount(numbers)], 1)
    return _difference(
        rows, lambda summed: summed[0] / summed[1], int(np.sum(rows[:, 0] < 0)), alpha
    )


def ratio_intervals(
    sums_SK: np.ndarray, counts_SK: np.ndarray, *, alpha: float = 0.05
) -> list[tuple[float, float] | None]:
    """The intervals of K means a token, from sums and tokens by sentence. None below MIN_SENTENCES,
    and of a mean whose tokens are all in one block."""
    num = sums_SK.shape[1]

    def means(summed: np.ndarray) -> np.ndarray:
        missing = np.full(num, np.nan)
        return np.divide(summed[:num], summed[num:], out=missing, where=summed[num:] > 0)

    rows = np.concatenate([sums_SK, counts_SK], 1)
    if len(rows) < MIN_SENTENCES:
        return [None] * num
    blocks_KB = by_block(rows, means).T.tolist()
    return [
        None if math.isnan(sum(blocks)) else two_noises.interval(((seen,), blocks), alpha)
        for seen, blocks in zip(means(rows.sum(0)).tolist(), blocks_KB, strict=True)
    ]


def score_difference(
    first: np.ndarray,
    second: np.ndarray,
    score_of: Callable[[np.ndarray], float],
    *,
    alpha: float = 0.05,
) -> SentenceDifference:
    """How much higher the first's score is, and how that varies over other sentences.

    `first`, `second`: a row of counts for each sentence; `score_of`: the score of their sum.
    """
    width = np.shape(first)[1]

    def differ(summed: np.ndarray) -> float:
        return score_of(summed[:width]) - score_of(summed[width:])

    rows = np.concatenate([first, second], 1).astype(np.float64)
    return _difference(rows, differ, sum(differ(row) > 0 for row in rows), alpha)


def by_block(rows: np.ndarray, value_of: Callable[[np.ndarray], Any]) -> np.ndarray:
    """The value of each block of rows that follow each other; their mean is that of all rows."""
    num, total = num_blocks(len(rows)), rows.sum(0)
    without = np.stack([value_of(total - some.sum(0)) for some in np.array_split(rows, num)])
    return value_of(total) + (num - 1) * (without.mean(0) - without)


def num_blocks(num_sentences: int) -> int:
    """The number of blocks of a text."""
    return round(math.sqrt(num_sentences))


def _difference(
    rows: np.ndarray, value_of: Callable[[np.ndarray], float], num_better: int, alpha: float
) -> SentenceDifference:
    interval = p = None
    seen = float(value_of(rows.sum(0)))
    if len(rows) >= MIN_SENTENCES:
        noises = ((seen,), by_block(rows, value_of).tolist())
        interval, p = two_noises.interval(noises, alpha), two_noises.p_value(noises)
    return SentenceDifference(
        mean=seen, interval=interval, p=p, num_sentences=len(rows), num_better=num_better
    )
