"""Trials compared token by token, from the log-probabilities that each saved: nothing is trained.
Trials that wrote sentences are compared by the scores of these, in the same way.

    mean_probability    of an ensemble: log of the mean of p
    mixture_weights     of an interpolation, found by EM (the likelihood is concave in them)
    sentence_bootstrap  the difference of two trials' mean nats a token, over resampled sentences
    score_bootstrap     the difference of two trials' scores of a text, over the same

Words of a sentence are not independent, so whole sentences are drawn (Koehn 2004), the same ones
for both trials. The difference is a ratio: nats of the drawn sentences over their tokens; a
difference of scores is computed from the drawn sentences' counts, as the score of a text is. With
few sentences the draws vary too little: the 95% interval then covers 75% (3 sentences) or 88% (10),
and if a text is one sentence, every draw is that text. So below MIN_SENTENCES, from where it covers
93%, there is neither an interval nor a p.

This compares two trained models on text like this one, and not two techniques, whose trials differ
by their seeds as well: for these there is the study's table. Pure: arrays in, numbers out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
        values = np.concatenate(drawn)
        low, high = np.quantile(values, [alpha / 2, 1 - alpha / 2])
        # The share of resamples that are as far from the difference seen as 0 is.
        as_far = int(np.sum(np.abs(values - seen) >= abs(seen)))
        interval, p = (float(low), float(high)), (1 + as_far) / (1 + len(values))
    return SentenceDifference(
        mean=float(seen), interval=interval, p=p, num_sentences=num_sentences, num_better=num_better
    )


def _ratios(summed_R2: np.ndarray) -> np.ndarray:
    return summed_R2[:, 0] / summed_R2[:, 1]


def _resampled(rows: np.ndarray, num: int, seed: int) -> Iterator[np.ndarray]:
    """The sums of the rows of resampled sentences, some resamples at a time."""
    if len(rows) < MIN_SENTENCES:
        return
    generator = np.random.default_rng(seed)
    size = len(rows)
    for begin in range(0, num, AT_ONCE):
        picked = generator.integers(0, size, (min(AT_ONCE, num - begin), size))
        yield np.stack([column[picked].sum(1) for column in rows.T.astype(np.float64)], 1)
