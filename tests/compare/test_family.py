"""One family for all that a page says: how often any of its words is wrong."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from ablate.compare.statistics import paired
from ablate.compare.statistics.design import Design
from ablate.compare.statistics.family import Family

NUM = 2_000
TWO = dict.fromkeys("ab", ("off", "on"))


def p_values(design: Design, losses: np.ndarray, rows: list[np.ndarray]) -> np.ndarray:
    """[table, row]: p of every contrast of losses [table, arm, seed]."""
    values = np.einsum("ra,tas->trs", np.stack(rows), losses)
    return stats.ttest_1samp(values, 0, axis=2).pvalue


def wrong_pages(truth: dict[tuple[str, ...], float], num_seeds: int = 5) -> float:
    """The share of pages of two factors that call a contrast different whose truth is 0."""
    arms = [dict(zip("ab", levels, strict=True)) for levels in itertools.product(*TWO.values())]
    design = Design(arms, arms[0])
    means = np.array([truth.get(tuple(arm.values()), 0.0) for arm in arms])
    generator = np.random.default_rng(5)
    losses = means[:, None] + generator.normal(0, 1, (NUM, len(arms), num_seeds))
    of_arms = [np.eye(4)[i] - np.eye(4)[0] for i in (1, 2, 3)]
    effects = design.contrasts()
    within = [c.weights for _, *pair in design.simple({"a × b"}) for c in pair]
    rows = [*of_arms, *(effect.weights for effect in effects), *within]
    null = [abs(row @ means) < 1e-9 for row in rows]
    wrong = 0
    for ps in p_values(design, losses, rows).tolist():
        family = Family(3, tuple(ps[3:6]), frozenset([2]))
        arms_p, effects_p = family.corrected(ps[:3])
        decided = effects_p[2] is not None and effects_p[2] <= 0.05
        simple = [family.within(p, [effects_p[2]]) if decided else 1.0 for p in ps[6:]]
        shown = [*arms_p, *effects_p, *simple]
        wrong += any(p <= 0.05 and zero for p, zero in zip(shown, null, strict=True))
    return wrong / NUM


@pytest.mark.parametrize(
    "truth",
    [
        {},
        {("on", "on"): 9.0},  # an interaction that is always decided: two simple effects are 0
        {("on", "off"): 9.0, ("on", "on"): 9.0},  # a alone
        {("on", "on"): 2.0},
    ],
)
def test_a_page_has_a_wrong_word_in_5_percent_at_most(truth):
    rate = wrong_pages(truth)
    assert stats.binomtest(round(rate * NUM), NUM, 0.05, alternative="greater").pvalue > 0.01


def test_three_families_would_err_more_often():
    """What was done before, caught by the same draws."""
    generator = np.random.default_rng(5)
    losses = generator.normal(0, 1, (NUM, 4, 5))
    arms = [dict(zip("ab", levels, strict=True)) for levels in itertools.product(*TWO.values())]
    design = Design(arms, arms[0])
    rows = [*(np.eye(4)[i] - np.eye(4)[0] for i in (1, 2, 3))]
    rows += [effect.weights for effect in design.contrasts()]
    ps = p_values(design, losses, rows)
    apart = [min(3 * row[:3].min(), 3 * row[3:].min()) <= 0.05 for row in ps]
    assert np.mean(apart) > 0.065


def test_those_that_keep_their_share_leave_the_others_where_they_were():
    assert paired.holm([0.01, 0.02, 0.03]) == pytest.approx([0.03, 0.04, 0.04])
    assert paired.holm([0.01, 0.02, 0.03], None, [0]) == pytest.approx([0.03, 0.06, 0.06])
