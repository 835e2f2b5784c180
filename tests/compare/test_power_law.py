"""The curve of a ladder against scipy's own fit, and what the base needs against the true curve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from ablate.compare.statistics.equivalent import FAR, equivalent
from ablate.compare.statistics.power_law import PowerLaw, fit

COMPUTE = (1e9, 4e9, 1e10, 6e10, 2e11)


def losses(floor, height, exponent, compute=COMPUTE):
    return floor + height * (np.asarray(compute) / 1e9) ** -exponent


def by_scipy(compute, values):
    """Another parametrisation, by Levenberg and Marquardt."""

    def curve(logs, floor, height, exponent):
        return floor + height * np.exp(-exponent * logs)

    logs = np.log(np.asarray(compute) / compute[0])
    found, _ = optimize.curve_fit(
        curve, logs, values, p0=(0.5 * min(values), 1.0, 0.3), maxfev=100_000
    )
    return found


@given(st.floats(0.2, 4), st.floats(0.3, 5), st.floats(0.15, 0.9), st.integers(4, 5))
def test_a_curve_without_noise_is_found_as_scipy_finds_it(floor, height, exponent, rungs):
    compute = COMPUTE[:rungs]
    values = losses(floor, height, exponent, compute)
    law = fit(compute, values.tolist(), above_zero=True)
    np.testing.assert_allclose(law.at(np.array(compute)), values, rtol=1e-6)
    theirs = by_scipy(compute, values)
    assert [law.floor, law.exponent] == pytest.approx([theirs[0], theirs[2]], rel=2e-3)
    far = 30 * compute[-1]
    assert float(law.at(far)) == pytest.approx(losses(floor, height, exponent, far), rel=1e-3)
    assert law.compute_for(float(law.at(far))) == pytest.approx(far)


def test_noise_leaves_the_least_squares_that_scipy_finds():
    values = losses(1.5, 2.0, 0.25) + np.array([0.01, -0.02, 0.015, -0.005, 0.004])
    law = fit(COMPUTE, values.tolist(), above_zero=True)
    floor, height, exponent = by_scipy(COMPUTE, values)
    theirs = floor + height * (np.asarray(COMPUTE) / 1e9) ** -exponent
    np.testing.assert_allclose(law.at(np.array(COMPUTE)), theirs, atol=1e-5)


def test_no_loss_is_below_zero_unless_it_may_be():
    values = losses(-1.0, 4.0, 0.05)
    assert fit(COMPUTE, values.tolist(), above_zero=True).floor == 0
    assert fit(COMPUTE, values.tolist(), above_zero=False).floor == pytest.approx(-1, rel=0.05)


@pytest.mark.parametrize("floor", [1.5, 0.0])
def test_weights_are_how_the_fit_moves_with_each_loss(floor):
    values = losses(floor, 2.0, 0.2) + np.array([0.01, -0.01, 0.01, 0.0, -0.02])
    law, at, step = fit(COMPUTE, values.tolist(), above_zero=True), np.array([3e9, 1e12]), 1e-5
    moved = [
        (fit(COMPUTE, (values + e).tolist(), above_zero=True).at(at) - law.at(at)) / step
        for e in step * np.eye(len(COMPUTE))
    ]
    np.testing.assert_allclose(law.weights(at).T, moved, atol=0.02)


def test_what_does_not_fall_or_falls_at_once_has_no_curve():
    assert fit(COMPUTE, [3, 3.1, 3.2, 3.3, 3.4], above_zero=True).problem.endswith("with compute")
    assert "all at once" in fit(COMPUTE, [9, 3, 3, 3, 3], above_zero=True).problem
    flat = PowerLaw(1.0, 0.0, 0.2, 1e9, COMPUTE, True)
    assert flat.compute_for(0.9) is flat.compute_for(2.0) is None


def drawn(ratio, noise=0.004, seeds=5, extra=0.0):
    """A base's losses, and those of an arm as good as the base with `ratio` times the compute."""
    generator = np.random.default_rng(3)
    base = losses(1.5, 2.0, 0.3) + generator.normal(0, noise, (seeds, len(COMPUTE)))
    better = losses(1.5, 2.0, 0.3, ratio * np.asarray(COMPUTE)) + extra
    return base, better + generator.normal(0, noise, (seeds, len(COMPUTE)))


@pytest.mark.parametrize(("rung", "beyond"), [(0, False), (4, True)])
def test_the_base_needs_what_its_true_curve_needs(rung, beyond):
    base, arm = drawn(1.3)
    law = fit(COMPUTE, base.mean(0).tolist(), above_zero=True)
    found = equivalent(law, base, arm[:, rung], COMPUTE[rung])
    assert found.low < 1.3 < found.high and found.low < found.ratio < found.high
    assert found.beyond is beyond
    half = equivalent(law, base, arm[:, rung], 2 * COMPUTE[rung])  # it cost twice as much
    assert [half.ratio, half.low, half.high] == pytest.approx(
        [found.ratio / 2, found.low / 2, found.high / 2]
    )


def test_an_end_that_nothing_shows_is_open():
    base, arm = drawn(1.3, extra=-0.3)  # near the base's floor at the largest rung
    law = fit(COMPUTE, base.mean(0).tolist(), above_zero=True)
    found = equivalent(law, base, arm[:, 4], COMPUTE[4])
    assert (found.ratio, found.high, found.beyond) == (None, None, True)
    assert 1 < found.low < FAR
    two = equivalent(law, base[:2], arm[:2, 0], COMPUTE[0])
    assert two.ratio and (two.low, two.high) == (None, None)
