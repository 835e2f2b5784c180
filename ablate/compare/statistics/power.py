"""What a number of pairs can find: before training, and when a comparison is undecided.

    detectable   the smallest difference that a paired t-test of n pairs finds in 80% of cases
    more_pairs   how many more pairs decide an undecided comparison with a probability of 80%

Neither takes what few pairs have shown for the truth.

Of `detectable`, a spread that f degrees of freedom gave leaves sigma = spread sqrt(f / chi^2(f)).
The 80% are the mean over these: at the spread itself, 57 to 78% are found.

Of `more_pairs`, the effect seen on few pairs is the effect that happened to be undecided, and so is
the spread. So the true effect, in spreads, is drawn from what the n pairs leave of a prior N(0, 1),
and the spread from what they leave of 1 / sigma:

    u^2 ~ chi^2(n) / (n - 1 + n t^2 / (n + 1))       u = s / sigma, t = mean / s of the pairs seen
    effect | u ~ N(n t u / (n + 1), 1 / (n + 1))     in spreads

and further pairs are drawn from it. Pairs that are added to a study which was read were not
planned, so the test is the one that judges them then: `anytime.py`'s. (With as many as a t-test
needs, that decided 55 to 68%.) They are measured on the same text, or the same items, whose part of
the interval stays as it is (`two_noises.py`). A number is given only if at most MAX_PAIRS pairs in
all reach 80%: an advice that cannot be followed is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ablate.compare.statistics import anytime, two_noises
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.paired import special
from ablate.results.spread import mean, spread
from ablate.store.replication import MIN_PAIRS

POWER = 0.8
MAX_PAIRS = 100  # in all
NUM_DRAWS = 2_000  # of what may come: the probability is known to about 0.9%
NUM_SPREADS = 200  # quantiles of what a spread may truly be


@lru_cache(maxsize=1024)
def detectable(num: int, level: float, free: float | None = None) -> float:
    """The difference, in spreads, that a test of `num` pairs at this level finds in 80% of cases.
    `free`: the degrees of freedom that the spread was estimated with; None if it is known."""
    ratios = np.ones(1) if free is None else _true_spreads(free) ** -1
    low, high = 0.0, 1.0
    while _power(high * ratios, num, level) < POWER:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if _power(middle * ratios, num, level) >= POWER else (middle, high)
        )
    return high


def _true_spreads(free: float) -> np.ndarray:
    """Quantiles of the true spread, in spreads that were seen."""
    shares = (np.arange(NUM_SPREADS) + 0.5) / NUM_SPREADS
    return np.sqrt(free / special.chdtri(free, shares))


@lru_cache(maxsize=1024)  # a table reads it for its rows and for its notes
def more_pairs(
    deltas: tuple[float, ...], level: float, blocks: tuple[float, ...] = ()
) -> int | None:
    """The fewest more pairs with which these decide at this level with a probability of 80%.

    `blocks`: the differences on the blocks of a text, or on items.

    None if no number up to MAX_PAIRS in all does, or if the spread is unknown or 0.
    """
    if not spread(deltas) or len(deltas) >= MAX_PAIRS:
        return None
    enough = np.flatnonzero(chances(deltas, level, blocks) >= POWER)
    return int(enough[0]) + 1 if len(enough) else None


def chances(deltas: Sequence[float], level: float, blocks: Sequence[float] = ()) -> np.ndarray:
    """The probability that the test at any time has decided with 1, 2, .. more pairs."""
    generator, num = np.random.default_rng(1), len(deltas)
    if (anytime.p_value(deltas, blocks) or 1.0) <= level:
        return np.ones(MAX_PAIRS - num)
    deviation = spread(deltas) or math.nan
    ratio = mean(deltas) / deviation
    left = num - 1 + num * ratio**2 / (num + 1)
    inverse = np.sqrt(generator.chisquare(num, (NUM_DRAWS, 1)) / left)  # s / sigma
    noise = generator.normal(size=(NUM_DRAWS, 1)) / math.sqrt(num + 1)
    effect = num * ratio * inverse / (num + 1) + noise
    # In units of sigma: the sums of all pairs, and of their squares.
    more, (walks, squared) = np.arange(1, MAX_PAIRS - num + 1), _walks()
    new = walks[:, : len(more)]
    sums = num * ratio * inverse + effect * more + new
    squares = (num - 1 + num * ratio**2) * inverse**2
    squares = squares + effect**2 * more + 2 * effect * new + squared[:, : len(more)]
    totals, least = num + more, _least(level)[num:]
    share = anytime.AT_ANY_TIME.share
    of_blocks = two_noises.half_width(blocks, level * share) / deviation * inverse * totals
    decided = sums**2 - of_blocks**2 >= least**2 * (totals * squares - sums**2) / (totals - 1)
    return np.mean(np.logical_or.accumulate(decided, 1), 0)


@lru_cache(maxsize=1)
def _walks() -> tuple[np.ndarray, np.ndarray]:
    """Draws of what comes: the sums of 1, 2, .. pairs, and the sums of their squares."""
    pairs = np.random.default_rng(0).normal(size=(NUM_DRAWS, MAX_PAIRS))
    return np.cumsum(pairs, 1), np.cumsum(pairs**2, 1)


@lru_cache(maxsize=64)
def _least(level: float) -> np.ndarray:
    """The t statistic that decides at any time, of 1, 2, .. pairs."""
    least = anytime.t_at(1 / level, np.arange(MIN_PAIRS, MAX_PAIRS + 1))
    return np.concatenate([np.full(MIN_PAIRS - 1, math.inf), least])


def _power(effects: np.ndarray, num: int, level: float) -> float:
    """The chance that a paired t-test of `num` pairs finds effects of so many spreads: its mean."""
    noncentrality, free = effects * math.sqrt(num), num - 1
    critical = statistics.t_quantile(1 - level / 2, free)
    power = 1 - special.nctdtr(free, noncentrality, critical)
    # scipy gives up far in the tails, where the normal is exact enough
    return float(np.mean(np.where(np.isnan(power), special.ndtr(noncentrality - critical), power)))
