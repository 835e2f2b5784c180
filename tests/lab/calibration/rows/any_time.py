"""Looks that nobody planned, at every number of seeds from 3 to 60."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.compare.statistics import anytime
from ablate.compare.statistics.paired import holm as holm_of
from ablate.store.replication import MIN_PAIRS
from tests.lab.calibration.draws import ALPHA, against_base, arms_of, holm, p_of, t_of
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate

MOST = 60


def equal(generator: np.random.Generator, num: int, *, arms: int) -> Simulated:
    """Arms that differ by chance alone; a seed is added and looked at, 57 times."""
    deltas = against_base(arms_of(generator, num, arms, MOST))
    wrong = (holm(p_from(deltas)) <= ALPHA).any(-1)
    by_tables = [
        min(p for p in holm_of([anytime.p_value(one) for one in table]) if p is not None) <= ALPHA
        for table in deltas[:CHECKED].tolist()
    ]
    hold_equal(wrong, by_tables, "any time")
    plain = np.zeros(num, bool)
    for seeds in range(MIN_PAIRS, MOST + 1):
        plain |= (holm(p_of(deltas[..., :seeds])) <= ALPHA).any(-1)
    return Simulated(rate(wrong), rate(plain))


def p_from(deltas: np.ndarray) -> np.ndarray:
    """The smallest p of `p_at` at any number of the pairs."""
    numbers = range(MIN_PAIRS, deltas.shape[-1] + 1)
    return np.min([p_at(deltas[..., :pairs]) for pairs in numbers], axis=0)


def p_at(deltas: np.ndarray) -> np.ndarray:
    """1 / the evidence of all pairs, as the formula of `anytime.py` has it."""
    num = deltas.shape[-1]
    free, squared = num - 1, t_of(deltas) ** 2
    evidence = [
        (1 + num * size) ** -0.5
        * ((1 + squared / free) / (1 + squared / (free * (1 + num * size)))) ** ((free + 1) / 2)
        for size in anytime.SIZES
    ]
    return np.minimum(1, 1 / np.mean(evidence, axis=0))


ROW = Row(
    name="Looks without a plan",
    promise="Seeds added and looked at one by one, to any number: arms that are the same are "
    "called better or worse in at most 5%.",
    draws="Normal noise, equal arms, a look at each number of seeds from 3 to 60.",
    of="studies with a wrong word at any look",
    limit=Limit(most=5.0),
    twin="the plain t-test at each look",
    cases=tuple(Case(f"{arms} arms", partial(equal, arms=arms)) for arms in (2, 4)),
)
