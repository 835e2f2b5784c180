"""A difference that is to hold for new seeds and for new text, or new items, of the same kind.

Seeds of one test text say how trainings vary and nothing of texts; items of one training say
nothing of trainings. Where both were measured, d[s, b] is the difference of seed s on block b, in
units in which its mean over the B blocks is the difference of the seed. A block is a run of
tokens that follow each other, an item, or a cluster of items. With m the mean of all:

    h_seeds  = t(S - 1) sqrt(sum_s (d[s, .] - m)^2 / (S (S - 1)))       the t interval over seeds
    h_blocks = t(B - 1) sqrt(sum_b (d[., b] - m)^2 / (B (B - 1)))       that over blocks
    h = sqrt(h_seeds^2 + h_blocks^2)

Both have the part of the noise that is of one seed on one block, so h errs on the wide side: it
covers the truth in 94.8 to 99% (docs/calibration.md), and where blocks are quiet it is the interval
over seeds. p is the level at which h is as large as m. Of a single seed, h is h_blocks: what it
says is of these very trainings.

Seeds that are looked at whenever one likes have another t (`anytime.py`). Blocks then have the t of
half the level: all looks are at the same blocks, but at another mean of seeds beside them. With the
t of the whole level, 6.6% of such studies have a wrong word where text makes most of the noise, and
3.3% with this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ablate.compare.statistics.paired import special, t_test
from ablate.results.spread import mean, spread

STEPS = 80  # of a bisection: more than a double has bits

Means = Sequence[float]  # of each seed over the blocks, or of each block over the seeds
OfTwo = Callable[[float, int], float]  # of a t statistic or a level, and of the number of means


def p_of(t: float, num: int) -> float:
    """The p of a t statistic of so many means."""
    return 2 * float(special.stdtr(num - 1, -t))


def t_at(level: float, num: int) -> float:
    """The t statistic that has this p."""
    return -float(special.stdtrit(num - 1, level / 2))


class Test(NamedTuple):
    """How seeds are tested, and as what share of the level blocks are."""

    p_of: OfTwo = p_of
    t_at: OfTwo = t_at
    share: float = 1.0


ONE_LOOK = Test()


def interval(
    noises: tuple[Means, Means], level: float, test: Test = ONE_LOOK
) -> tuple[float, float] | None:
    """m -+ h, of the means of all seeds and those of all blocks; one mean has no noise to show.

    None where there are neither several seeds nor several blocks, or where h is infinite.
    """
    seeds, blocks = noises
    if len(seeds) < 2 and len(blocks) < 2:
        return None
    of_blocks = half_width(blocks, level * test.share)
    half, centre = math.hypot(half_width(seeds, level, test.t_at), of_blocks), mean(seeds)
    return None if half == math.inf else (centre - half, centre + half)


def p_value(noises: tuple[Means, Means], test: Test = ONE_LOOK) -> float | None:
    """The level at which the interval ends at 0. Without a spread it is 1 if the mean is 0, else
    None."""
    seeds, blocks = noises
    size, of_seeds, of_blocks = abs(mean(seeds)), _error(seeds), _error(blocks)
    if not of_seeds:
        return t_test(blocks if of_blocks or len(seeds) == 1 else seeds)
    low, high = 0.0, size / of_seeds  # t of the seeds
    for _ in range(STEPS if of_blocks else 0):
        middle = (low + high) / 2
        reach = t_at(test.share * test.p_of(middle, len(seeds)), len(blocks))
        wide = math.hypot(middle * of_seeds, reach * of_blocks) > size
        low, high = (low, middle) if wide else (middle, high)
    return min(1.0, test.p_of(high, len(seeds)))


def half_width(means: Means, level: float, reach: OfTwo = t_at) -> float:
    """The part of one noise in h; means without a spread have none."""
    error = _error(means)
    return reach(level, len(means)) * error if error else 0.0


def _error(means: Means) -> float:
    return (spread(means) or 0.0) / math.sqrt(len(means) or 1)
