"""The interval and the p of a difference, of pairs alone or of pairs that were measured block by
block: on the same items, or on the same text.

several trainings   over seeds, and over items or text (`two_noises.py`)
one training each   over items, by a paired t

A cluster of items counts as one. Answers of one training each that are right or wrong differ by one
amount or not at all: then p is that of the exact sign test on the items that differ (McNemar's).
Its interval has the normal ends of Agresti and Min (2005), half an item added to each of the four
cells; where one of them says otherwise than the test, the end is that of Clopper and Pearson's
interval of the share of these items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ablate.compare.statistics import two_noises
from ablate.compare.statistics.paired import Difference, special, t_interval, t_test
from ablate.compare.statistics.shares import exact_interval
from ablate.results.spread import ROUNDING
from ablate.store.replication import MIN_PAIRS

Interval = tuple[float, float]


def interval(difference: Difference, level: float) -> Interval | None:
    """The interval at a level: it excludes 0 where p is at most the level, and nowhere else."""
    if not difference.by_block:
        return t_interval(difference.deltas, level)
    of_blocks = difference.of_blocks
    if difference.is_over_blocks and (size := _one_size(of_blocks)):
        return _exact_interval(*_signs(of_blocks), len(of_blocks), size, level)
    return two_noises.interval(difference.noises, level)


def p_value(difference: Difference) -> float | None:
    """The p that agrees with the interval; None with too few pairs, or blocks of one pair."""
    repeated = len(difference.of_blocks) if difference.is_over_blocks else difference.num_pairs
    if repeated < MIN_PAIRS:
        return None
    if difference.is_over_blocks and _one_size(difference.of_blocks):
        above, below = _signs(difference.of_blocks)
        return min(1.0, 2 * float(special.bdtr(min(above, below), above + below, 0.5)))
    by_block = difference.by_block
    return two_noises.p_value(difference.noises) if by_block else t_test(difference.deltas)


def _one_size(values: Sequence[float]) -> float | None:
    """The size of all values other than 0, if they have one."""
    size = max(map(abs, values))
    near = ROUNDING * len(values) * size
    alike = all(abs(value) <= near or abs(abs(value) - size) <= near for value in values)
    return size if size and alike else None


def _signs(values: Sequence[float]) -> tuple[int, int]:
    """How many values are above and below 0; less than half of the largest is a rounding error."""
    half = max(map(abs, values)) / 2
    return sum(value > half for value in values), sum(value < -half for value in values)


def _exact_interval(above: int, below: int, num: int, size: float, level: float) -> Interval:
    """The interval of a mean of `num` values, of which so many are `size` and `-size`."""
    centre = (above - below) / (num + 2)
    error = math.sqrt(((above + below + 1) / (num + 2) - centre**2) / (num + 2))
    reach = float(special.ndtri(1 - level / 2)) * error
    low, high = (
        (2 * share - 1) * (above + below) / num
        for share in exact_interval(above, above + below, level)
    )
    low = low if centre - reach <= 0 < low else min(low, centre - reach)
    high = high if high < 0 <= centre + reach else max(high, centre + reach)
    return size * low, size * high
