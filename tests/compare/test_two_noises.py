"""Intervals and p-values that hold for new seeds and new blocks, beside numpy's and scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from ablate.compare.statistics import two_noises


def drawn(seeds: int, blocks: int, shift: float = 0.5) -> np.ndarray:
    """Differences [seed, block] with noise of seeds, of blocks, and of each seed on each block."""
    draws = np.random.default_rng(seeds * blocks)
    own = draws.normal(shift, 0.3, (seeds, 1)) + draws.normal(0, 2.0, (1, blocks))
    return own + draws.normal(0, 1.0, (seeds, blocks))


def noises(d: np.ndarray) -> tuple[list[float], list[float]]:
    return d.mean(1).tolist(), d.mean(0).tolist()


def h_by_mean_squares(d: np.ndarray, level: float) -> float:
    """h as an analysis of variance has it, by its mean squares."""
    (num, blocks), m = d.shape, d.mean()
    ms_seeds = blocks * ((d.mean(1) - m) ** 2).sum() / (num - 1)
    ms_blocks = num * ((d.mean(0) - m) ** 2).sum() / (blocks - 1)
    t_seeds, t_blocks = (stats.t.isf(level / 2, of - 1) for of in d.shape)
    return np.sqrt((t_seeds**2 * ms_seeds + t_blocks**2 * ms_blocks) / (num * blocks))


@pytest.mark.parametrize("shape", [(3, 28), (5, 90), (12, 8)])
@pytest.mark.parametrize("level", [0.05, 0.05 / 7])
def test_the_interval_is_that_of_mean_squares(shape: tuple[int, int], level: float):
    d = drawn(*shape)
    h = h_by_mean_squares(d, level)
    expected = (d.mean() - h, d.mean() + h)
    assert two_noises.interval(noises(d), level) == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(3, 28), (5, 90), (12, 8)])
@pytest.mark.parametrize("shift", [0.01, 0.5, 5.0])
def test_p_is_the_level_at_which_the_interval_ends_at_0(shape: tuple[int, int], shift: float):
    d = drawn(*shape, shift)
    root = optimize.brentq(lambda x: h_by_mean_squares(d, np.exp(x)) - abs(d.mean()), -50, 0)
    assert two_noises.p_value(noises(d)) == pytest.approx(np.exp(root), rel=1e-6)


def test_where_one_noise_is_quiet_the_other_decides():
    d = drawn(5, 90)
    seeds, blocks = noises(d)
    of_seeds = stats.ttest_1samp(seeds, 0)
    assert two_noises.p_value([seeds, [d.mean()] * 90]) == pytest.approx(of_seeds.pvalue)
    assert two_noises.interval([seeds, []], 0.05) == pytest.approx(of_seeds.confidence_interval())
    of_blocks = stats.ttest_1samp(blocks, 0)
    assert two_noises.p_value([[d.mean()], blocks]) == pytest.approx(of_blocks.pvalue)
    assert two_noises.interval([[d.mean()], blocks], 0.05) == pytest.approx(
        of_blocks.confidence_interval()
    )


def test_without_noise_there_is_no_interval_and_p_is_of_the_mean():
    assert two_noises.interval([[0.5], []], 0.05) is None
    assert two_noises.p_value([[0.5, 0.5], [0.5, 0.5]]) is None
    assert two_noises.p_value([[0.0, 0.0], [0.0, 0.0]]) == 1
    assert two_noises.p_value([[0.1, -0.1], [0.2, -0.2]]) == 1


def test_a_difference_far_beyond_its_noise_has_a_small_p():
    p = two_noises.p_value([[100.0 + 0.001 * s for s in range(200)], [99.9, 100.1] * 5_000])
    assert p is not None
    assert 0 <= p < 1e-100
