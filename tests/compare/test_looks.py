"""Tests over planned looks, and at any time, and what tables make of them. docs/calibration.md has
their error."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from ablate.compare.formats import text
from ablate.compare.judged import Judged
from ablate.compare.statistics import anytime, looks
from ablate.compare.statistics.paired import paired_difference
from ablate.compare.table.full_table import full_table as study_table
from ablate.store.study_record import InterimLook

PLANNED = (5, 8, 12)
BASE = (4.10, 4.12, 4.09, 4.11, 4.13, 4.10, 4.12, 4.09, 4.11, 4.13, 4.10, 4.12)
LOWER = tuple(nats - 0.05 - 0.001 * (i % 4) for i, nats in enumerate(BASE))
# Against the base: clearly above 0 only after eight pairs.
LATE = tuple(b + d for b, d in zip(BASE, (0.02, -0.01, 0.03, 0.0, 0.02, *[0.02] * 7), strict=True))
NOISY = (4.13, 4.08, 4.12, 4.09, 4.12, 4.11, 4.10, 4.12, 4.08, 4.12, 4.13, 4.08)


def p_at_looks(rng, num: int, arms: int, effect: float = 0.0) -> np.ndarray:
    """(study, arm, look): p of scipy's paired test of each arm with a shared base arm."""
    base = rng.standard_normal((num, 1, PLANNED[-1]))
    others = rng.standard_normal((num, arms, PLANNED[-1])) + effect
    each = [stats.ttest_rel(others[..., :n], base[..., :n], axis=-1).pvalue for n in PLANNED]
    return np.stack(each, -1)


def test_the_level_is_what_the_draws_give():
    p = p_at_looks(np.random.default_rng(3), 20_000, 1)[:, 0].min(-1)
    for alpha in (0.05, 0.05 / 3):
        level = looks.level(alpha, PLANNED)
        assert np.mean(p <= level) == pytest.approx(alpha, abs=3 * math.sqrt(alpha / 20_000))
    assert looks.level(0.05, (12,)) == pytest.approx(0.05, abs=0.002)


def test_p_over_looks_rises_with_p_and_lies_between_its_bounds():
    p = [0, 1e-30, 1e-9, 1e-6, 1e-4, 0.001, 0.02, 0.3, 0.9, 1]
    over = [looks.p_over(one, PLANNED) for one in p]
    assert over == sorted(over)
    assert all(one <= q <= min(1, 3 * one) for one, q in zip(p[:3], over[:3], strict=True))
    # Draws are off by their own error, which the bound from below does not have.
    assert all(0.95 * one <= q <= 3 * one for one, q in zip(p[4:], over[4:], strict=True))


def evidence(deltas: np.ndarray, size: float) -> float:
    """The ratio of the two likelihoods, by numerical integration over mean and log spread."""
    z, log_spread = np.linspace(-8, 8, 801), np.linspace(-3, 5, 801)
    spread = np.exp(log_spread)[:, None]

    def likelihood(mean: np.ndarray) -> np.ndarray:
        return np.prod([stats.norm.pdf(delta, mean, spread) for delta in deltas], axis=0)

    weighted = likelihood(z * spread * math.sqrt(size)) * stats.norm.pdf(z)
    above = integrate.trapezoid(integrate.trapezoid(weighted, z), log_spread)
    return above / integrate.trapezoid(likelihood(np.zeros(1))[:, 0], log_spread)


@pytest.mark.parametrize("deltas", [(0.4, 1.1, 0.9, 0.2), (1.0, -0.5, 0.3)])
def test_the_evidence_is_the_ratio_of_integrated_likelihoods(deltas):
    values = np.array(deltas)
    t = float(stats.ttest_1samp(values, 0).statistic)
    for size in (1, 10):
        ours = anytime._e_value(t, len(values), size)
        assert ours == pytest.approx(evidence(values, size), rel=1e-3)
    each = [anytime._e_value(t, len(values), size) for size in (1, 10, 100)]
    assert anytime.e_value(t, len(values)) == pytest.approx(np.mean(each))


def test_an_interval_at_any_time_is_what_the_evidence_leaves_possible():
    deltas = (0.4, 1.1, 0.9, 0.2, 0.7)
    low, high = anytime.interval(paired_difference(deltas), 0.05)
    for end in (low, high):
        t = float(stats.ttest_1samp(deltas, end).statistic)
        assert anytime.e_value(t, 5) == pytest.approx(20)
    assert (
        anytime.interval(paired_difference(deltas[:2]), 0.05) is None
    )  # two pairs exclude no mean
    assert anytime.p_value((0.1, 0.1, 0.1)) is None
    assert anytime.p_value((0.0, 0.0, 0.0)) == 1


def looked_at(by_hand, losses, *made: int, planned=PLANNED, **arms):
    study = by_hand(losses)
    study.arm_fields = {name: {"stopped_at": num} for name, num in arms.items()}
    made = tuple(InterimLook(num=num) for num in made)
    study.record_fields = {"looks": planned, "made": made, "num_seeds": len(losses["base"])}
    return Judged(study.record, study.journals)


def test_between_looks_there_is_no_verdict_and_at_a_look_there_is(by_hand):
    some = (*LOWER[:6], *[None] * 6)
    partly = {"base": BASE, "low": some, "noisy": (*NOISY[:6], *[None] * 6)}
    before = looked_at(by_hand, partly)
    assert [arm.comparison.verdict for arm in before.arms[1:]] == ["undecided"] * 2
    assert before.arm("low").comparison.difference.p is None
    after = looked_at(by_hand, partly, 5)
    low, noisy = after.arm("low").comparison, after.arm("noisy").comparison
    assert (low.verdict, low.reason) == ("better", "")
    assert (noisy.verdict, noisy.reason) == ("undecided", "6 to run")
    five = stats.ttest_rel(LOWER[:5], BASE[:5]).pvalue  # the sixth pair comes after the look
    assert low.difference.p == pytest.approx(looks.p_over(five, PLANNED))


def test_what_is_decided_stays_decided_and_the_smallest_p_counts(by_hand):
    spoilt = (*LOWER[:8], *(nats + 0.3 * (i % 2) for i, nats in enumerate(BASE[8:])))
    summary = looked_at(by_hand, {"base": BASE, "low": spoilt}, *PLANNED)
    low = summary.arm("low").comparison
    assert stats.ttest_rel(spoilt, BASE).pvalue > 0.05
    eight = stats.ttest_rel(spoilt[:8], BASE[:8]).pvalue
    assert low.difference.p == pytest.approx(looks.p_over(eight, PLANNED))
    assert low.difference.mean > 0  # by now
    assert low.verdict == "better"


def test_an_arm_that_stopped_is_whole_and_is_said_to_be_decided(by_hand):
    arms = {"base": BASE, "low": LOWER[:5], "noisy": NOISY}
    summary = looked_at(by_hand, arms, *PLANNED, low=5)
    assert summary.whole
    assert summary.arm("low").counts.planned == 5
    assert summary.arm("low").comparison.verdict == "better"
    shown = text.write(study_table(summary))
    assert "looked at 5, 8, 12 seeds, as planned" in shown
    assert "trained no more: low at 5 of 12 seeds" in shown
    assert "97.5% interval over 3 looks" in shown
    assert "INCOMPLETE" not in shown


def test_a_seed_that_the_base_loses_later_takes_no_verdict_away(by_hand):
    higher = tuple(nats + 0.1 + 0.001 * (i % 4) for i, nats in enumerate(BASE[:5]))
    study = by_hand({"base": BASE, "high": higher, "noisy": NOISY})
    study.end("base-7", "diverged")
    study.arm_fields = {"high": {"stopped_at": 5}}
    made = tuple(InterimLook(num=num) for num in PLANNED)
    study.record_fields = {"looks": PLANNED, "made": made, "num_seeds": 12}
    summary = Judged(study.record, study.journals)
    assert summary.arm("high").comparison.verdict == "worse"
    study.end("base-3", "diverged")
    summary = Judged(study.record, study.journals)
    assert summary.arm("high").comparison.verdict != "better"


def test_an_interval_over_looks_is_the_t_interval_at_the_p_that_decides(by_hand):
    summary = looked_at(by_hand, {"base": BASE, "noisy": NOISY}, *PLANNED)
    difference = summary.arm("noisy").comparison.difference
    level = looks.level(0.05, PLANNED)
    expected = stats.ttest_rel(NOISY, BASE).confidence_interval(1 - level)
    assert difference.interval == pytest.approx((expected.low, expected.high))


def test_seeds_beyond_the_plan_are_judged_at_any_time(by_hand):
    summary = looked_at(by_hand, {"base": BASE, "late": LATE}, 3, 5, planned=(3,))
    late = summary.arm("late").comparison
    deltas = np.subtract(LATE, BASE)
    assert late.difference.p == pytest.approx(anytime.p_value(deltas))
    assert late.difference.p > stats.ttest_rel(LATE, BASE).pvalue
    shown = text.write(study_table(summary))
    assert "looked at 3, 5, 12 seeds; 3 were planned" in shown
    assert "95% interval at any time" in shown


def test_only_the_test_at_any_time_gives_a_star(by_hand):
    deltas = (-0.02, -0.01, -0.03, -0.001, -0.02)
    arm = tuple(np.add(BASE[:5], deltas))
    planned = looked_at(by_hand, {"base": BASE[:5], "arm": arm}, 5, planned=(5,))
    extended = looked_at(by_hand, {"base": BASE[:5], "arm": arm}, 3, planned=(3,))
    assert (planned.arm("arm").best, extended.arm("arm").best) == (True, False)


def test_records_from_before_looks_planned_the_one_at_their_end(by_hand):
    study = by_hand({"base": BASE[:5], "low": LOWER[:5], "noisy": NOISY[:5]})
    summary = Judged(study.record, study.journals)
    assert str(summary.looks) == ""
    again = Judged(replace(study.record, made=(InterimLook(num=5),)), study.journals)
    assert again.arms == summary.arms
    assert summary.arm("low").comparison.difference.p == pytest.approx(
        stats.ttest_rel(LOWER[:5], BASE[:5]).pvalue
    )
