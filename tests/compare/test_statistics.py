"""The statistics against scipy and against enumeration. docs/calibration.md has what they cover."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from ablate.compare.statistics import paired as ours

NEAR = (0.1, 0.11, 0.105)  # differences of three pairs


def normal(seed: int, shape, mean: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1.0, size=shape)


@pytest.mark.parametrize("num", [3, 5, 12, 40])
def test_the_t_test_and_its_interval_are_scipys(num):
    arm, base = normal(num, (2, num))
    difference = ours.paired_difference(arm - base)
    theirs = stats.ttest_rel(arm, base)
    interval = theirs.confidence_interval(0.95)
    assert difference is not None
    assert difference.p == pytest.approx(theirs.pvalue, rel=1e-9)
    assert difference.interval == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert difference.spread == pytest.approx(np.std(arm - base, ddof=1), rel=1e-12)


@pytest.mark.parametrize("num", [3, 5, 8])
def test_the_sign_flip_test_is_exact_for_few_pairs(num):
    deltas = normal(num, num, mean=0.7)
    patterns = itertools.product([1, -1], repeat=num)
    as_far = [abs(np.dot(p, deltas)) >= abs(deltas.sum()) - 1e-9 for p in patterns]
    assert ours.sign_flip_test(deltas) == np.mean(as_far)
    theirs = stats.permutation_test(
        (deltas,), np.sum, permutation_type="samples", n_resamples=np.inf
    )
    assert ours.sign_flip_test(deltas) == pytest.approx(theirs.pvalue)


def test_the_sampled_sign_flip_test_comes_close_to_the_exact_one():
    deltas = normal(1, ours.EXACT_FLIPS + 1, mean=0.4)
    patterns = np.array(list(itertools.product([1.0, -1.0], repeat=len(deltas))))
    exact = np.mean(np.abs(patterns @ deltas) >= abs(deltas.sum()) - 1e-9)
    assert ours.sign_flip_test(deltas) == pytest.approx(exact, abs=0.01)
    assert ours.sign_flip_test(deltas) == ours.sign_flip_test(deltas)


def test_of_very_many_pairs_the_sum_with_random_signs_is_normal(monkeypatch):
    deltas = np.random.default_rng(3).normal(0.05, 1, 2_000)
    sampled = ours.sign_flip_test(deltas)
    monkeypatch.setattr(ours, "MANY", 1_000)
    assert ours.sign_flip_test(deltas) == pytest.approx(sampled, abs=0.01)
    assert ours.sign_flip_test(np.zeros(2_000)) == 1


def test_holm_by_hand():
    assert ours.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert ours.holm([0.5, 0.9]) == [1.0, 1.0]
    assert ours.holm([]) == []


def test_verdicts_name_a_direction_only_where_the_corrected_test_does():
    lower = ours.paired_difference([-1.0, -1.01, -0.99])
    higher = ours.paired_difference([1.0, 1.01, 0.99])
    assert ours.verdict(lower, 0.01) == "better"
    assert ours.verdict(higher, 0.01) == "worse"
    assert ours.verdict(lower, 0.051) == "undecided"
    assert ours.verdict(None, None) == "undecided"


def test_rounding_is_a_part_of_the_values_whatever_their_size():
    for size in (1e-13, 4.0, 1e13):
        values = [(size * (1 + 0.01 * i), size * (1 + 0.01 * i + d)) for i, d in enumerate(NEAR)]
        difference = ours.paired_difference([b - a for a, b in values], size=2 * size)
        assert difference and ours.verdict(difference, difference.p) == "worse"
        noise = [size * (1 + 0.01 * i) * 1e-15 for i in (-1, 1, 2)]
        same = ours.paired_difference(noise, size=size)
        assert same and (same.mean, same.spread, same.p) == (0, 0, 1)
        shifted = ours.paired_difference([size + each for each in noise], size=size)
        assert shifted and shifted.is_constant and shifted.p is None


def test_fewer_than_three_pairs_are_never_decided():
    two = ours.paired_difference([-8.0, -7.9999])
    assert two is not None
    assert two.p is None
    assert ours.verdict(two, 0.0) == "undecided"


def test_one_pair_has_a_mean_and_nothing_else():
    one = ours.paired_difference([-0.5])
    assert one is not None
    assert (one.mean, one.spread, one.interval, one.p) == (-0.5, *[None] * 3)
    assert ours.paired_difference([]) is None


def test_equal_arms_are_undecided_and_so_are_equal_differences():
    same = ours.paired_difference([0.0, 0.0, 1e-14])
    shifted = ours.paired_difference([-0.5, -0.5, -0.5])
    assert same is not None
    assert shifted is not None
    assert (same.mean, same.p, same.p_sign_flip) == (0.0, 1.0, 1.0)
    assert ours.verdict(same, same.p) == "undecided"
    assert (same.is_constant, shifted.is_constant) == (False, True)
    assert shifted.p is shifted.p_sign_flip is None
    assert ours.verdict(shifted, shifted.p) == "undecided"
