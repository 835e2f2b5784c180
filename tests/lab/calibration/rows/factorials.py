"""Pages of factorials: arms, main effects, interactions and simple effects are one family."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.compare.statistics.design import Design
from ablate.compare.statistics.family import Family
from ablate.study.designs import factorial
from tests.lab.calibration.draws import ALPHA, holm, p_of
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate
from tests.lab.calibration.tables import page_decides, table_of

TWO = {"off": {}, "on": {}}
SEEDS = 5


def _losses(generator: np.random.Generator, num: int, arms: int) -> np.ndarray:
    return generator.normal(0, 1, (num, arms, SEEDS))


def _p_values(losses: np.ndarray, rows: list[np.ndarray]) -> np.ndarray:
    """[page, row]: p of every contrast."""
    return p_of(np.einsum("ra,tas->trs", np.stack(rows), losses))


def _rows(levels: list[dict[str, str]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The contrasts of the arms with the first one, and those of effects."""
    unit = np.eye(len(levels))
    effects = Design(levels, levels[0]).contrasts()
    return list(unit[1:] - unit[0]), [effect.weights for effect in effects]


def equal(generator: np.random.Generator, num: int, *, factors: int) -> Simulated:
    """All arms are the same, so each word of the page is wrong."""
    design = factorial(dict.fromkeys("abcd"[:factors], TWO))
    of_arms, of_effects = _rows([dict(arm.levels) for arm in design.arms])
    losses = _losses(generator, num, len(design.arms))
    p = _p_values(losses, [*of_arms, *of_effects])
    wrong = (holm(p) <= ALPHA).any(-1)
    by_pages = [page_decides(table_of(each, design)) for each in losses[:CHECKED]]
    hold_equal(wrong, by_pages, f"{factors} factors")
    arms, effects = (holm(some) <= ALPHA for some in np.split(p, [len(of_arms)], axis=1))
    return Simulated(rate(wrong), rate(arms.any(-1) | effects.any(-1)))


def some_effects(
    generator: np.random.Generator, num: int, *, truth: tuple[float, float, float, float]
) -> Simulated:
    """Two factors and the true losses of (off, off), (off, on), (on, off) and (on, on)."""
    design = factorial(dict.fromkeys("ab", TWO))
    levels = [dict(arm.levels) for arm in design.arms]
    means = np.array(truth)
    losses = means[:, None] + _losses(generator, num, 4)
    of_arms, of_effects = _rows(levels)
    inside = Design(levels, levels[0]).simple({"a × b"})
    simple = [contrast.weights for _, *pair in inside for contrast in pair]
    rows = [*of_arms, *of_effects, *simple]
    null = [abs(row @ means) < 1e-9 for row in rows]
    wrong = [_wrong(p, null) for p in _p_values(losses, rows).tolist()]
    return Simulated(rate(np.array(wrong)))


def _wrong(p: list[float], null: list[bool]) -> bool:
    """Return whether a page of two factors calls a contrast different whose truth is 0."""
    family = Family(3, tuple(p[3:6]), frozenset([2]))
    arms, effects = family.corrected(p[:3])
    decided = effects[2] is not None and effects[2] <= ALPHA
    simple = [family.within(one, [effects[2]]) if decided else None for one in p[6:]]
    shown = zip([*arms, *effects, *simple], null, strict=True)
    return any(one is not None and one <= ALPHA and zero for one, zero in shown)


ROW = Row(
    name="Factorial pages",
    promise="A factorial's page (arms, main effects, interactions, effects within these) has a "
    "wrong word in at most 5%.",
    draws="Normal noise, 5 seeds, factors of two levels; all arms equal, unless the case says "
    "otherwise.",
    of="pages with a wrong word",
    limit=Limit(most=5.5),
    twin="a family for the arms and another one for the effects",
    cases=(
        *(
            Case(f"{factors} factors, {2**factors} arms", partial(equal, factors=factors))
            for factors in (2, 3, 4)
        ),
        Case("2 factors, a large interaction", partial(some_effects, truth=(0, 0, 0, 9))),
        Case("2 factors, an interaction of 2", partial(some_effects, truth=(0, 0, 0, 2))),
        Case("2 factors, one of them large", partial(some_effects, truth=(0, 0, 9, 9))),
    ),
)
