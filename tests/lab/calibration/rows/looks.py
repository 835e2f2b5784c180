"""Planned looks at 5, 8 and 12 seeds, at one error for all of them."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.compare.statistics import looks
from ablate.store.study_record import InterimLook
from tests.lab.calibration.draws import ALPHA, against_base, arms_of, holm, p_of
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate
from tests.lab.calibration.tables import decides, table_of

PLANNED = (5, 8, 12)
MADE = tuple(InterimLook(num=num) for num in PLANNED)


def equal(generator: np.random.Generator, num: int, *, arms: int) -> Simulated:
    """Arms that differ by chance alone, looked at three times."""
    losses = arms_of(generator, num, arms, PLANNED[-1])
    at_looks = np.stack([p_of(against_base(losses[..., :seeds])) for seeds in PLANNED])
    # p over looks only falls: what any look decides, the last one decides.
    wrong = (holm(over(at_looks.min(0))) <= ALPHA).any(-1)
    tables = (table_of(each, looks=PLANNED, made=MADE) for each in losses[:CHECKED])
    hold_equal(wrong, [decides(table) for table in tables], f"looks, {arms} arms")
    plain = (holm(at_looks) <= ALPHA).any(-1).any(0)
    return Simulated(rate(wrong), rate(plain))


def over(smallest: np.ndarray) -> np.ndarray:
    """`looks.p_over` of many p."""
    null = looks.smallest_p_values(PLANNED)
    as_small = (1 + np.searchsorted(null, smallest, side="right")) / (1 + len(null))
    return np.minimum(1, np.minimum(len(PLANNED) * smallest, as_small))


ROW = Row(
    name="Planned looks",
    promise="Looks that were planned share one error: some look at arms that are the same calls "
    "an arm better or worse in at most 5%.",
    draws="Normal noise, equal arms, looks at 5, 8 and 12 seeds.",
    of="studies with a wrong word at any look",
    limit=Limit(most=5.5),
    twin="the plain t-test at each look",
    cases=tuple(Case(f"{arms} arms", partial(equal, arms=arms)) for arms in (2, 4, 10)),
)
