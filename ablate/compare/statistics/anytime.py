"""A paired test that holds whenever one stops: for looks that nobody planned.

The evidence against "no difference" after n pairs with statistic t, and ν = n - 1, is the ratio of
two likelihoods that the unknown spread has been integrated out of: the mean is normal around 0,
with g times the variance of one pair, or it is 0.

    E_n(g) = (1 + ng)^-1/2 [(1 + t²/ν) / (1 + t²/(ν (1 + ng)))]^((ν + 1)/2)

E_n is the mean over g in (1, 10, 100). Without a difference it exceeds 1/α at any n, ever, in at
most a share α of studies. So p = 1 / (the largest E so far) is a p-value at any time, however often
it was looked at, and for whatever reason pairs were added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ablate.compare.statistics import two_noises
from ablate.compare.statistics.paired import MIN_PAIRS, Difference

SIZES = (1, 10, 100)  # of the difference's variance, in variances of a pair
STEPS = 80  # of a bisection: more than a double has bits
LARGEST = 1e6  # t


def e_value(t: Any, num: Any) -> Any:
    """The evidence of a t statistic of `num` pairs against no difference; 1 is none. Of arrays, one
    for each."""
    return sum(_e_value(t, num, size) for size in SIZES) / len(SIZES)


def _e_value(t: Any, num: Any, size: float) -> Any:
    free, wider = num - 1, 1 + num * size
    # By logarithms, since powers of large numbers of pairs overflow.
    grows = (free + 1) / 2 * (np.log1p(t * t / free) - np.log1p(t * t / (free * wider)))
    return np.exp(np.minimum(700.0, grows - np.log(wider) / 2))


def p_value(deltas: Sequence[float], blocks: Sequence[float] = ()) -> float | None:
    """p at any time, from the largest evidence at any number of pairs; None if there is no test.
    `blocks`: the differences on blocks that all pairs share."""
    numbers = range(MIN_PAIRS, len(deltas) + 1)
    found = (two_noises.p_value((deltas[:num], blocks), AT_ANY_TIME) for num in numbers)
    return min((p for p in found if p is not None), default=None)


def tests(difference: Difference) -> list[tuple[float, int]]:
    """What p would be from each number of pairs alone, and this number."""
    found = (
        (two_noises.p_value(difference.first(num).noises, AT_ANY_TIME), num)
        for num in range(MIN_PAIRS, difference.num_pairs + 1)
    )
    return [(p, num) for p, num in found if p is not None]


def interval(difference: Difference, alpha: float) -> tuple[float, float] | None:
    """The means that the evidence of all pairs leaves possible; None if it leaves every mean.

    It covers the truth whenever one stops, and is wider than a t interval for that.
    """
    return two_noises.interval(difference.noises, alpha, AT_ANY_TIME)


def t_at(evidence: float, nums: np.ndarray) -> np.ndarray:
    """The t statistic at which the evidence is this much, for each number of pairs; infinite where
    no t has so much."""
    low, high = np.zeros(len(nums)), np.full(len(nums), LARGEST)
    for _ in range(STEPS):
        middle = (low + high) / 2
        less = e_value(middle, nums) < evidence
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.where(e_value(high, nums) < evidence, math.inf, high)


def _p_of(t: float, num: int) -> float:
    return min(1.0, float(1 / e_value(t, num)))


def _t_at(level: float, num: int) -> float:
    return float(t_at(1 / level, np.array([num]))[0])


AT_ANY_TIME = two_noises.Test(_p_of, _t_at, share=0.5)
