"""Tables of listed arms that are the same: one t-test an arm, Holm's correction over them."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.lab.calibration.draws import ALPHA, against_base, arms_of, holm, p_of
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate
from tests.lab.calibration.tables import decides, table_of


def equal(generator: np.random.Generator, num: int, *, arms: int, seeds: int) -> Simulated:
    """Arms that differ by chance alone."""
    losses = arms_of(generator, num, arms, seeds)
    p = p_of(against_base(losses))
    wrong = (holm(p) <= ALPHA).any(-1)
    by_tables = [decides(table_of(each)) for each in losses[:CHECKED]]
    hold_equal(wrong, by_tables, f"{arms} arms")
    return Simulated(rate(wrong), None if arms == 2 else rate((p <= ALPHA).any(-1)))


def some_better(generator: np.random.Generator, num: int) -> Simulated:
    """Ten arms on five seeds, of which three are better by twice the spread of a difference."""
    losses = arms_of(generator, num, 10, 5)
    losses[:, 7:] -= 2
    p = p_of(against_base(losses))
    wrong = (holm(p)[:, :6] <= ALPHA).any(-1)
    tables = [table_of(each) for each in losses[:CHECKED]]
    same_arms = [
        any(arm.comparison.verdict.decided for arm in table.arms[:7] if arm.comparison)
        for table in tables
    ]
    hold_equal(wrong, same_arms, "ten arms, three of them better")
    return Simulated(rate(wrong), rate((p[:, :6] <= ALPHA).any(-1)))


def star(generator: np.random.Generator, num: int, *, arms: int, seeds: int) -> Simulated:
    """The mark of the best arm, among arms that are the same. Twin: better than the worst."""
    losses = arms_of(generator, num, arms, seeds)
    means = losses.mean(-1)
    best = means.argmin(-1)
    first = np.take_along_axis(losses, best[:, None, None], 1)
    others = np.arange(arms) != best[:, None]
    apart = (losses - first)[others].reshape(num, arms - 1, seeds)
    p = p_of(apart)
    marked = (holm(p) <= ALPHA).all(-1)
    by_tables = [any(arm.best for arm in table_of(each).arms) for each in losses[:CHECKED]]
    hold_equal(marked, by_tables, "the star")
    return Simulated(rate(marked), rate((p <= ALPHA).any(-1)))


ROW = Row(
    name="Listed arms",
    promise="A table of arms that are the same calls some arm better or worse in at most 5%.",
    draws="Normal noise, a part of it shared by the arms of a seed; all arms equal, unless the "
    "case says otherwise.",
    of="tables with a wrong word",
    limit=Limit(most=5.5),
    twin="Holm's correction left out; for the star, an arm that one other arm is worse than",
    cases=(
        *(
            Case(f"{arms} arms, {seeds} seeds", partial(equal, arms=arms, seeds=seeds))
            for arms, seeds in ((2, 3), (2, 12), (4, 3), (4, 5), (4, 12), (10, 5), (20, 12))
        ),
        Case("10 arms, 5 seeds, three arms better", some_better),
        Case("the star of the best arm, 4 arms, 5 seeds", partial(star, arms=4, seeds=5)),
    ),
)
