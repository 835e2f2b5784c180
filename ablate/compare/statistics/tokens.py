"""Trials compared token by token, from the log-probabilities that each saved: nothing is trained.
Trials that wrote sentences are compared by the scores of these, in the same way.

    mean_probability    of an ensemble: log of the mean of p
    mixture_weights     of an interpolation, found by EM (the likelihood is concave in them)
    sentence_bootstrap  the difference of two trials' mean nats a token, over resampled sentences
    ratio_intervals     several means a token, as of differences after several words, over the same
    score_bootstrap     the difference of two trials' scores of a text, over the same

Words of a sentence are not independent, so whole sentences are drawn (Koehn 2004), the same ones
for both trials; and sentences of one text are not independent of their neighbours, so sqrt(n) of
the n sentences that follow each other are drawn together (a circular block bootstrap). Drawn one by
one, the 95% interval covers 88% where neighbours correlate by .3, and 78% by .6. The difference is
a ratio: nats of the drawn sentences over their tokens; a difference of scores is computed from the
drawn sentences' counts, as the score of a text is.

    interval    difference seen -+ t(1 - alpha/2, B - 1) * spread of the draws * sqrt(B / (B - 1))

with B = sqrt(n) blocks, which are few: so t and not quantiles of the draws. It covers 94 to 97% of
normal differences of 40 to 4,000 sentences at correlations up to .6. Below MIN_SENTENCES there is
neither an interval nor a p; if a text is one sentence, every draw is that text.

This compares two trained models on text like this one, and not two techniques, whose trials differ
by their seeds as well: for these there is the study's table. Pure: arrays in, numbers out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.compare.statistics.paired import special

MIN_SENTENCES = 40
NUM_RESAMPLES = 5_000
AT_ONCE = 250  # resamples, to bound the memory
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


def sentence_bootstrap(
    first: np.ndarray,
    second: np.ndarray,
    numbers: np.ndarray,
    *,
    alpha: float = 0.05,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> SentenceDifference:
    """How much lower the first's loss is, and how that varies over other sentences."""
    deltas = np.asarray(second, np.float64) - np.asarray(first, np.float64)  # of losses: -log p
    nats, counts = np.bincount(numbers, deltas), np.bincount(numbers)
    rows = np.stack([nats, counts], 1)
    drawn = [_ratios(drawn) for drawn in _resampled(rows, num_resamples, seed)]
    return _difference(nats.sum() / counts.sum(), drawn, len(counts), int(np.sum(nats < 0)), alpha)


def ratio_intervals(
    sums_SK: np.ndarray,
    counts_SK: np.ndarray,
    *,
    alpha: float = 0.05,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> np.ndarray | None:
    """The intervals of K means a token, [2, K], from sums and tokens by sentence; None below
    MIN_SENTENCES. Resamples without a token of a mean say nothing of it."""
    num = sums_SK.shape[1]
    drawn = []
    for summed in _resampled(np.concatenate([sums_SK, counts_SK], 1), num_resamples, seed):
        missing = np.full((len(summed), num), np.nan)
        counts = summed[:, num:]
        drawn.append(np.divide(summed[:, :num], counts, out=missing, where=counts > 0))
    if not drawn:
        return None
    seen = sums_SK.sum(0) / counts_SK.sum(0)
    error, free = _error(np.nanstd(np.concatenate(drawn), axis=0), len(sums_SK))
    half = error * float(special.stdtrit(free, 1 - alpha / 2))
    return np.stack([seen - half, seen + half])


def score_bootstrap(
    first: np.ndarray,
    second: np.ndarray,
    score_of: Callable[[np.ndarray], float],
    *,
    alpha: float = 0.05,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> SentenceDifference:
    """How much higher the first's score is, and how that varies over other sentences.

    `first`, `second`: a row of counts for each sentence; `score_of`: the score of their sum.
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    width = first.shape[1]

    def differ(summed: np.ndarray) -> float:
        return score_of(summed[:width]) - score_of(summed[width:])

    rows = np.concatenate([first, second], 1)
    by_sentence = [differ(row) for row in rows]
    drawn = [[differ(one) for one in some] for some in _resampled(rows, num_resamples, seed)]
    better = sum(difference > 0 for difference in by_sentence)
    return _difference(differ(rows.sum(0)), drawn, len(rows), better, alpha)


def _difference(
    seen: float, drawn: Sequence[Any], num_sentences: int, num_better: int, alpha: float
) -> SentenceDifference:
    """`drawn`: the differences of resampled sentences, in parts; none if there are too few."""
    interval = p = None
    if drawn:
        error, free = _error(np.std(np.concatenate(drawn)), num_sentences)
        half = float(error) * float(special.stdtrit(free, 1 - alpha / 2))
        interval = (float(seen) - half, float(seen) + half)
        p = 1.0
        if seen:
            p = 2 * float(special.stdtr(free, -abs(seen) / error)) if error else 0.0
    return SentenceDifference(
        mean=float(seen), interval=interval, p=p, num_sentences=num_sentences, num_better=num_better
    )


def _error(spread: Any, num_sentences: int) -> tuple[Any, float]:
    """The standard error that a spread of resamples gives, and its degrees of freedom: the blocks'
    own mean is drawn around, so one of B is not free."""
    blocks = num_sentences / block_length(num_sentences)
    return spread * math.sqrt(blocks / (blocks - 1)), blocks - 1


def block_length(num_sentences: int) -> int:
    """The number of neighbouring sentences that are drawn together."""
    return max(1, round(math.sqrt(num_sentences)))


def _ratios(summed_R2: np.ndarray) -> np.ndarray:
    return summed_R2[:, 0] / summed_R2[:, 1]


def _resampled(rows: np.ndarray, num: int, seed: int) -> Iterator[np.ndarray]:
    """The sums of the rows of resampled sentences, some resamples at a time.

    Blocks of sentences that follow each other are drawn; the first follows the last.
    """
    if len(rows) < MIN_SENTENCES:
        return
    generator = np.random.default_rng(seed)
    size, length = len(rows), block_length(len(rows))
    within = np.arange(length)
    for begin in range(0, num, AT_ONCE):
        starts = generator.integers(0, size, (min(AT_ONCE, num - begin), -(-size // length)))
        blocks = (starts[:, :, None] + within) % size
        picked = blocks.reshape(len(starts), -1)[:, :size]
        yield np.stack([column[picked].sum(1) for column in rows.T.astype(np.float64)], 1)
