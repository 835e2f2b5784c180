"""Intervals over seeds and text: a difference of arms that were measured block by block."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.compare.statistics import two_noises
from tests.lab.calibration.draws import ALPHA, half_width
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate

SMALL_CELLS = 0.5  # the noise of one seed on one block, in that of a block


def crossed(
    generator: np.random.Generator, num: int, *, seeds: int, blocks: int, text: float
) -> Simulated:
    """Differences around 0. `text`: the error of the mean that blocks make, in that of seeds."""
    of_seed = generator.normal(0, np.sqrt(seeds), (num, seeds))
    of_block = text * generator.normal(0, np.sqrt(blocks), (num, blocks))
    # Means over the cells of a row and of a column; the two have one mean over all.
    cells = SMALL_CELLS * text * np.sqrt(blocks)
    over_blocks = cells / np.sqrt(blocks) * generator.normal(size=(num, seeds))
    over_seeds = cells / np.sqrt(seeds) * generator.normal(size=(num, blocks))
    over_seeds += (over_blocks.mean(1) - over_seeds.mean(1))[:, None]
    means_s = of_seed + over_blocks + of_block.mean(1)[:, None]
    means_b = of_block + over_seeds + of_seed.mean(1)[:, None]
    printed = half_width(means_s)
    half = np.hypot(printed, half_width(means_b))
    covered = np.abs(means_s.mean(1)) <= half
    drawn = zip(means_s[:CHECKED].tolist(), means_b[:CHECKED].tolist(), strict=True)
    hold_equal(covered, [_covers(noises) for noises in drawn], f"{seeds} seeds, {blocks} blocks")
    alone = np.abs(means_s.mean(1)) <= printed
    return Simulated(rate(covered), rate(alone) if text else None)


def _covers(noises: tuple[list[float], list[float]]) -> bool:
    interval, p = two_noises.interval(noises, ALPHA), two_noises.p_value(noises)
    assert interval is not None
    low, high = interval
    assert p is not None
    assert (p > ALPHA) == (low <= 0 <= high)
    return low <= 0 <= high


ROW = Row(
    name="Seeds and text",
    promise="The 95% interval over seeds and text (or items) covers the difference that new seeds "
    "would have on new text of the same kind.",
    draws="Normal noise of seeds, of blocks, and of each seed on each block. The error that text "
    "makes in the mean is given in that of seeds.",
    of="intervals that cover the difference",
    limit=Limit(least=94.5),
    twin="the interval over seeds alone",
    cases=tuple(
        Case(
            f"{seeds} seeds, {blocks} blocks, text {text:g}",
            partial(crossed, seeds=seeds, blocks=blocks, text=text),
        )
        for seeds, blocks in ((3, 28), (5, 90), (12, 100))
        for text in (0.0, 1.0, 3.0)
    ),
)
