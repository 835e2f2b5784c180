"""What a number of pairs can find: before training, and when a comparison is undecided.

    detectable   the smallest difference that a paired t-test of n pairs finds in 80% of cases, at
                 a spread of differences that is known or was seen
    more_pairs   how many more pairs decide an undecided comparison with a probability of 80%

The second is a prediction from what was seen, and must not trust it: the effect seen on few pairs
is the effect that happened to be undecided, and so is the spread. Taken at face value, both promise
80% and keep 51 to 73%. So the true effect, in spreads, is drawn from what the n pairs leave of a
prior N(0, 1), and the spread from what they leave of 1 / sigma:

    u^2 ~ chi^2(n) / (n - 1 + n t^2 / (n + 1))       u = s / sigma, t = mean / s of the pairs seen
    effect | u ~ N(n t u / (n + 1), 1 / (n + 1))     in spreads

and k further pairs are drawn from it. A number is given only if at most MAX_PAIRS pairs in all
reach 80%: an advice that cannot be followed is none.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

import numpy as np

from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.paired import special
from ablate.results.replication import MIN_PAIRS
from ablate.results.spread import mean, spread

POWER = 0.8
MAX_PAIRS = 100  # in all
NUM_DRAWS = 2_000  # of what may come: the probability is known to about 0.9%


def detectable(num: int, spread: float, level: float) -> float:
    """The difference that a test of `num` pairs at this level finds in 80% of cases."""
    low, high = 0.0, 1.0
    while _power(high, num, level) < POWER:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if _power(middle, num, level) >= POWER else (middle, high)
    return high * spread


@lru_cache(maxsize=1024)  # a table reads it for its rows and for its notes
def more_pairs(deltas: tuple[float, ...], level: float) -> int | None:
    """The fewest more pairs with which a test at this level decides with a probability of 80%.

    None if no number up to MAX_PAIRS in all does, or if the spread is unknown or 0.
    """
    deviation, num = spread(deltas), len(deltas)
    if not deviation:
        return None
    ratio, least = mean(deltas) / deviation, max(1, MIN_PAIRS - num)
    further = range(least, MAX_PAIRS - num + 1)
    if not further or chance(ratio, num, further[-1], level) < POWER:
        return None
    # A search by halves: the probability grows with the number of pairs.
    at = bisect_left(further[:-1], POWER, key=lambda more: chance(ratio, num, more, level))
    return further[at]


def chance(ratio: float, num: int, more: int, level: float) -> float:
    """The probability that the t-test of `num` + `more` pairs decides, given that the first `num`
    have a mean of `ratio` times their spread."""
    generator = np.random.default_rng(0)
    inverse = np.sqrt(generator.chisquare(num, NUM_DRAWS) / _left(ratio, num))  # s / sigma
    effect = num * ratio * inverse / (num + 1) + generator.normal(size=NUM_DRAWS) / math.sqrt(
        num + 1
    )
    # In units of sigma: the means and sums of squares of the pairs seen, and of those to come.
    seen, seen_squares = ratio * inverse, (num - 1) * inverse**2
    new = effect + generator.normal(size=NUM_DRAWS) / math.sqrt(more)
    new_squares = generator.chisquare(more - 1, NUM_DRAWS) if more > 1 else 0.0
    total = num + more
    squares = seen_squares + new_squares + num * more / total * (seen - new) ** 2
    t = (num * seen + more * new) / total * np.sqrt(total * (total - 1) / squares)
    return float(np.mean(np.abs(t) >= statistics.t_quantile(1 - level / 2, total - 1)))


def _left(ratio: float, num: int) -> float:
    return num - 1 + num * ratio**2 / (num + 1)


def _power(effect: float, num: int, level: float) -> float:
    """The chance that a paired t-test of `num` pairs finds an effect of `effect` spreads."""
    noncentrality, free = effect * math.sqrt(num), num - 1
    critical = statistics.t_quantile(1 - level / 2, free)
    power = 1 - float(special.nctdtr(free, noncentrality, critical))
    if math.isnan(power):  # scipy gives up far in the tails, where the normal is exact enough
        power = float(special.ndtr(noncentrality - critical))
    return power
