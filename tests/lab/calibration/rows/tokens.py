"""`ablate trial tokens`: the interval of two models' difference over the sentences of a text."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import special, stats

from ablate.compare.statistics import tokens
from tests.lab.calibration.draws import ALPHA
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, rate

CLOSE = 0.06  # of an interval's width: four standard errors of its resamples


def neighbours(
    generator: np.random.Generator, num: int, *, sentences: int, alike: float
) -> Simulated:
    """Texts of sentences whose differences correlate with the one before."""
    deltas = np.empty((num, sentences))
    deltas[:, 0] = generator.normal(size=num)
    fresh = np.sqrt(1 - alike**2) * generator.normal(size=(num, sentences))
    for at in range(1, sentences):
        deltas[:, at] = alike * deltas[:, at - 1] + fresh[:, at]
    half = half_by_blocks(deltas)
    _hold_close(deltas[:CHECKED], half)
    covered = np.abs(deltas.mean(1)) <= half
    alone = np.abs(deltas.mean(1)) <= stats.norm.ppf(1 - ALPHA / 2) * stats.sem(deltas, axis=1)
    return Simulated(rate(covered), rate(alone) if alike else None)


def half_by_blocks(deltas: np.ndarray) -> np.ndarray:
    """Half of the interval with infinitely many resamples: the spread of blocks' means over every
    place where a block may begin."""
    size = deltas.shape[1]
    length = tokens.block_length(size)
    blocks = size // length
    assert blocks * length == size, "a resample is whole blocks only where the square root is whole"
    around = np.concatenate([deltas, deltas[:, : length - 1]], 1)
    sums = np.cumsum(np.pad(around, ((0, 0), (1, 0))), 1)
    means = (sums[:, length:] - sums[:, :-length]) / length
    error = means.std(1) / np.sqrt(blocks) * np.sqrt(blocks / (blocks - 1))
    return error * special.stdtrit(blocks - 1, 1 - ALPHA / 2)


def _hold_close(deltas: np.ndarray, half: np.ndarray) -> None:
    """Raise an error unless the bootstrap's intervals are as wide as these."""
    numbers = np.arange(deltas.shape[1])
    for losses, expected in zip(deltas, half, strict=False):
        found = tokens.sentence_bootstrap(0 * losses, losses, numbers, num_resamples=3_000).interval
        assert found is not None
        assert abs((found[1] - found[0]) / 2 / expected - 1) < CLOSE


ROW = Row(
    name="By the token",
    promise="The 95% interval of `ablate trial tokens` covers the difference of two models.",
    draws="Texts whose sentences' differences are normal and correlate with those of their "
    "neighbours.",
    of="intervals that cover the difference",
    limit=Limit(least=92),
    twin="sentences drawn one by one",
    cases=tuple(
        Case(
            f"{sentences} sentences, correlation {alike:g}",
            partial(neighbours, sentences=sentences, alike=alike),
        )
        for sentences in (100, 400)
        for alike in (0.0, 0.3, 0.6)
    ),
)
