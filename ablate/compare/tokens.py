"""Trials compared by the token, from the log-probabilities that each kept: nothing is trained.

    mean_probability    an ensemble's: log of the mean of p
    mixture_weights     those of an interpolation, found by EM (the likelihood is concave in them)
    sentence_bootstrap  the difference of two trials' mean nats a token, over resampled sentences

Words of a sentence are not independent, so that whole sentences are drawn (Koehn 2004), the same
ones for both trials. The difference is a ratio: nats of the drawn sentences over their tokens.

What this says is of two trained models on text like this one; not of two techniques, whose trials
differ by their seeds as well: for these there is the study's table. Pure: arrays in, numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NUM_RESAMPLES = 5_000
AT_ONCE = 250  # resamples, to bound the memory
EM_STEPS = 500
CLOSE = 1e-10  # nats a token


@dataclass(frozen=True, kw_only=True)
class SentenceDifference:
    """The first trial minus the second, in nats a token."""

    mean: float
    interval: tuple[float, float]
    p: float
    num_sentences: int
    num_better: int  # sentences to which the first gives the higher probability
    alpha: float


def sentences(tokens: np.ndarray, eos: int) -> np.ndarray:
    """The number of the sentence that each judged token is in: all tokens but the first.

    A sentence ends with its `<eos>`; the last may lack one.
    """
    ends = np.asarray(tokens) == eos
    starts = np.cumsum(ends) - ends  # the sentences that have ended before this token
    numbers = starts[1:]
    return numbers - (numbers[0] if len(numbers) else 0)


def mean_probability(log_probs: Sequence[np.ndarray]) -> np.ndarray:
    """log of the mean probability of each token: an ensemble without running it."""
    return mixed(log_probs, [1 / len(log_probs)] * len(log_probs))


def mixed(log_probs: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """log sum_m w_m p_m, by the token."""
    stacked = np.stack([np.asarray(each, np.float64) for each in log_probs])
    with np.errstate(divide="ignore"):  # a weight of 0 leaves its model out
        weighted = stacked + np.log(np.asarray(weights, np.float64))[:, None]
    return np.logaddexp.reduce(weighted, axis=0)


def mixture_weights(log_probs: Sequence[np.ndarray]) -> list[float]:
    """The weights under which these tokens are likeliest."""
    stacked = np.stack([np.asarray(each, np.float64) for each in log_probs])
    weights, before = np.full(len(stacked), 1 / len(stacked)), -np.inf
    for _ in range(EM_STEPS):
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
    """How much lower the first's loss is, and what other sentences might have said.

    p is the share of resamples whose difference is as far from the one seen as that is from 0.
    """
    deltas = np.asarray(second, np.float64) - np.asarray(first, np.float64)  # of losses: -log p
    nats, counts = np.bincount(numbers, deltas), np.bincount(numbers)
    seen = nats.sum() / counts.sum()
    drawn = _resampled(nats, counts.astype(np.float64), num_resamples, seed)
    low, high = np.quantile(drawn, [alpha / 2, 1 - alpha / 2])
    as_far = int(np.sum(np.abs(drawn - seen) >= abs(seen)))
    return SentenceDifference(
        mean=float(seen),
        interval=(float(low), float(high)),
        p=(1 + as_far) / (1 + num_resamples),
        num_sentences=len(counts),
        num_better=int(np.sum(nats < 0)),
        alpha=alpha,
    )


def _resampled(nats: np.ndarray, counts: np.ndarray, num: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    size = len(nats)
    found = []
    for begin in range(0, num, AT_ONCE):
        rows = min(AT_ONCE, num - begin)
        picked = generator.integers(0, size, (rows, size))
        found.append(nats[picked].sum(1) / counts[picked].sum(1))
    return np.concatenate(found)
