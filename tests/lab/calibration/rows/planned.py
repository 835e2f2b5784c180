"""`ablate plan`: how often the difference that it names is found, if few pairs gave the spread."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.compare.foreseen import pooled
from ablate.compare.statistics import power
from ablate.compare.statistics.paired import paired_difference
from tests.lab.calibration.draws import ALPHA, against_base, arms_of, p_of
from tests.lab.calibration.row import Case, Limit, Measured, Row, Simulated, rate

SEEDS, TESTS = 12, 3  # of the study that is planned


def found(generator: np.random.Generator, num: int, *, pairs: int, arms: int) -> Simulated:
    """A recorded study of equal noise, and a planned one whose arm differs by what is named."""
    recorded = against_base(arms_of(generator, num, arms + 1, pairs))
    known = [
        pooled([d for deltas in study if (d := paired_difference(deltas.tolist()))], "")
        for study in recorded
    ]
    planned = generator.normal(0, 1, (num, SEEDS))
    sizes = np.array([spread.size for spread in known])
    free = round(known[0].free or 0.0, 9)

    def decided(degrees: float | None) -> Measured:
        least = sizes * power.detectable(SEEDS, ALPHA / TESTS, degrees)
        return rate(p_of(planned + least[:, None]) <= ALPHA / TESTS)

    return Simulated(decided(free), decided(None))


ROW = Row(
    name="A plan's 80%",
    promise="The difference that `ablate plan` names is found in 80%, at the spread of a recorded "
    "study.",
    draws="Normal noise. A study of few pairs is recorded; 12 seeds of three comparisons are "
    "planned, at Holm's strictest level.",
    of="planned studies that find the difference",
    limit=Limit(least=76, most=84),
    twin="the spread seen, taken for the true one",
    cases=tuple(
        Case(f"{pairs} pairs of {arms + 1} arms recorded", partial(found, pairs=pairs, arms=arms))
        for pairs, arms in ((3, 1), (5, 1), (5, 2), (5, 3))
    ),
)
