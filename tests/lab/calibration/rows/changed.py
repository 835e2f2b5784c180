"""Plans that change once results are there: arms cut, a base and an arm chosen, a metric chosen."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from ablate.store.stated import KeptPlan
from tests.lab.calibration.draws import ALPHA, against_base, arms_of, p_of
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate
from tests.lab.calibration.rows.any_time import p_from
from tests.lab.calibration.tables import NAMES, decides, table_of

METRICS = 3


def cut(generator: np.random.Generator, num: int, *, arms: int, seeds: int) -> Simulated:
    """Of equal arms, the one that differs most from the base arm by the plain test is kept."""
    losses = arms_of(generator, num, 1 + arms, seeds)
    every = p_of(against_base(losses))
    best, p = 1 + every.argmin(-1), every.min(-1)
    kept = losses[np.arange(num)[:, None], np.stack([np.zeros_like(best), best], -1)]
    plan = _plan(left_out=tuple(NAMES[:arms][1:]), as_planned=True)
    return _simulated(arms * p <= ALPHA, p <= ALPHA, kept, plan, seeds, "arms cut")


def chosen(generator: np.random.Generator, num: int, *, arms: int, seeds: int) -> Simulated:
    """Of equal arms, the two that differ most by the plain test are the study's base and arm."""
    losses = arms_of(generator, num, arms, seeds)
    pairs = np.array([*itertools.combinations(range(arms), 2)])
    p = p_of(losses[:, pairs[:, 1]] - losses[:, pairs[:, 0]])
    two = losses[np.arange(num)[:, None], pairs[p.argmin(1)]]
    wrong = len(pairs) * p_from(against_base(two))[:, 0] <= ALPHA
    plan = _plan(other_pairs=len(pairs) - 1, as_planned=False)
    return _simulated(wrong, p.min(1) <= ALPHA, two, plan, seeds, "base chosen")


def metric(generator: np.random.Generator, num: int, *, seeds: int) -> Simulated:
    """Of metrics that have nothing to do with each other, the one of the smallest p decides."""
    each = np.stack([arms_of(generator, num, 2, seeds) for _ in range(METRICS)], 1)
    p = p_of(each[:, :, 1] - each[:, :, 0])
    losses = each[np.arange(num), p.argmin(1)]
    wrong = p_from(against_base(losses))[:, 0] <= ALPHA
    plan = _plan(as_planned=False)
    return _simulated(wrong, p.min(1) <= ALPHA, losses, plan, seeds, "metric chosen")


def _plan(**changes: object) -> KeptPlan:
    """How the record of a study says that its plan was changed."""
    return KeptPlan(time="2026-11-29", hash="", looks=(), changes=("it was",), **changes)


def _simulated(
    wrong: np.ndarray,
    plain: np.ndarray,
    losses: np.ndarray,
    plan: KeptPlan,
    seeds: int,
    what: str,
) -> Simulated:
    tables = (table_of(each, kept_plan=plan, num_seeds=seeds) for each in losses[:CHECKED])
    hold_equal(wrong, [decides(table) for table in tables], what)
    return Simulated(rate(wrong), rate(plain))


SIZES = ((3, 5), (9, 5), (9, 12))
ROW = Row(
    name="Changed plans",
    promise="What is changed after results are there gives no more wrong words: arms that are left "
    "out still count, any two arms count once the base is chosen, and a metric that is chosen "
    "later decides by the test that holds at any time.",
    draws="Normal noise, equal arms; of three metrics, each has noise of its own.",
    of="tables with a wrong word",
    limit=Limit(most=5.5),
    twin="the plain t-test of what is left",
    cases=(
        *(
            Case(f"{arms} arms cut to one, {seeds} seeds", partial(cut, arms=arms, seeds=seeds))
            for arms, seeds in SIZES
        ),
        *(
            Case(
                f"base and arm chosen of {1 + arms}, {seeds} seeds",
                partial(chosen, arms=1 + arms, seeds=seeds),
            )
            for arms, seeds in SIZES
        ),
        *(
            Case(f"metric chosen of {METRICS}, {seeds} seeds", partial(metric, seeds=seeds))
            for seeds in (5, 12)
        ),
    ),
)
