"""What items say of a difference, where trainings were measured item by item on the same ones.

several trainings   over seeds and items (`two_noises.py`)
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
from dataclasses import replace

from ablate.compare.statistics import two_noises
from ablate.compare.statistics.paired import Difference, special
from ablate.compare.statistics.shares import exact_interval
from ablate.results.spread import ROUNDING
from ablate.store.replication import MIN_PAIRS

Interval = tuple[float, float]


def over_items(
    difference: Difference, by_block: Sequence[Sequence[float]], alpha: float
) -> Difference:
    """The same difference with its blocks, and with the p and the interval that these allow."""
    whole = replace(difference, by_block=tuple(map(tuple, by_block)))
    enough = len(by_block[0]) >= MIN_PAIRS and (whole.is_over_blocks or difference.p is not None)
    p = _p_value(whole) if enough else None
    return replace(whole, interval=interval(whole, alpha), p=p)


def interval(difference: Difference, level: float) -> Interval | None:
    """The interval at a level: it excludes 0 where p is at most the level, and nowhere else."""
    of_blocks = difference.of_blocks
    if difference.is_over_blocks and (size := _one_size(of_blocks)):
        return _exact_interval(*_signs(of_blocks), len(of_blocks), size, level)
    return two_noises.interval((difference.deltas, of_blocks), level)


def _p_value(difference: Difference) -> float | None:
    of_blocks = difference.of_blocks
    if difference.is_over_blocks and _one_size(of_blocks):
        above, below = _signs(of_blocks)
        return min(1.0, 2 * float(special.bdtr(min(above, below), above + below, 0.5)))
    return two_noises.p_value((difference.deltas, of_blocks))


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
