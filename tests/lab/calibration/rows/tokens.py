"""`ablate trial tokens`: the interval of two models' difference over the sentences of a text."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import stats

from ablate.compare.statistics import tokens
from tests.lab.calibration.draws import ALPHA, half_width
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate


def neighbours(
    generator: np.random.Generator, num: int, *, sentences: int, alike: float
) -> Simulated:
    """Texts of sentences whose differences correlate with the one before."""
    deltas = np.empty((num, sentences))
    deltas[:, 0] = generator.normal(size=num)
    fresh = np.sqrt(1 - alike**2) * generator.normal(size=(num, sentences))
    for at in range(1, sentences):
        deltas[:, at] = alike * deltas[:, at - 1] + fresh[:, at]
    half = half_width(deltas.reshape(num, tokens.num_blocks(sentences), -1).mean(-1))
    covered = np.abs(deltas.mean(1)) <= half
    by_command = [_covers(one) for one in deltas[:CHECKED]]
    hold_equal(covered, by_command, f"{sentences} sentences")
    alone = np.abs(deltas.mean(1)) <= stats.norm.ppf(1 - ALPHA / 2) * stats.sem(deltas, axis=1)
    return Simulated(rate(covered), rate(alone) if alike else None)


def _covers(deltas: np.ndarray) -> bool:
    found = tokens.sentence_difference(0 * deltas, deltas, np.arange(len(deltas))).interval
    assert found is not None
    return found[0] <= 0 <= found[1]


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
