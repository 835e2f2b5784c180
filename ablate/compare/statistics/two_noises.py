"""A difference that is to hold for new seeds and for new text, or new items, of the same kind.

Seeds of one test text say how trainings vary and nothing of texts; items of one training say
nothing of trainings. Where both were measured, d[s, b] is the difference of seed s on block b, in
units in which its mean over the B blocks is the difference of the seed. A block is a run of
sentences that follow each other, an item, or a cluster of items. With m the mean of all:

    h_seeds  = t(S - 1) sqrt(sum_s (d[s, .] - m)^2 / (S (S - 1)))       the t interval over seeds
    h_blocks = t(B - 1) sqrt(sum_b (d[., b] - m)^2 / (B (B - 1)))       that over blocks
    h = sqrt(h_seeds^2 + h_blocks^2)

Both have the part of the noise that is of one seed on one block, so h errs on the wide side: it
covers the truth in 94.8 to 99% (docs/calibration.md), and where blocks are quiet it is the interval
over seeds. p is the level at which h is as large as m. Of a single seed, h is h_blocks: what it
says is of these very trainings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ablate.compare.statistics.paired import special, t_test
from ablate.results.spread import mean, spread

STEPS = 60  # of a bisection
LEAST = -700.0  # log of the smallest p

Means = Sequence[float]  # of each seed over the blocks, or of each block over the seeds


def half_width(noises: Sequence[Means], level: float) -> float:
    """h, of the means of all seeds and those of all blocks; one mean has no noise to show."""
    return math.hypot(*(_half(means, level) for means in noises if len(means) > 1))


def interval(noises: Sequence[Means], level: float) -> tuple[float, float] | None:
    """m -+ h; None where there are neither several seeds nor several blocks."""
    if all(len(means) < 2 for means in noises):
        return None
    centre, half = mean(noises[0]), half_width(noises, level)
    return centre - half, centre + half


def p_value(noises: Sequence[Means]) -> float | None:
    """The level at which the interval ends at 0. Without a spread it is 1 if the mean is 0, else
    None."""
    noisy = [means for means in noises if spread(means)]
    size = abs(mean(noises[0]))
    if len(noisy) < 2:
        return t_test((noisy or noises)[0])
    low, high = LEAST, 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        wide = half_width(noisy, math.exp(middle)) > size
        low, high = (middle, high) if wide else (low, middle)
    return math.exp(high)


def _half(means: Means, level: float) -> float:
    error = (spread(means) or 0.0) / math.sqrt(len(means))
    return -float(special.stdtrit(len(means) - 1, level / 2)) * error
