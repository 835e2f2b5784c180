"""The t-test over clusters' means, and the pooled test that it replaces."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ablate.compare.statistics.clusters import by_cluster

NUM = 1_500


def drawn(num: int, apart: float, seed: int = 0) -> list[list[np.ndarray]]:
    """Tables of clusters of 1 to 10 pairs whose mean effects vary around 0."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 11, (NUM, num))
    means = generator.normal(0, apart, (NUM, num))
    return [
        [generator.normal(at, 1, size) for at, size in zip(*row, strict=True)]
        for row in zip(means, sizes, strict=True)
    ]


@pytest.mark.parametrize(("num", "apart"), [(3, 0.0), (3, 1.0), (8, 2.5)])
def test_settings_that_vary_are_called_different_in_5_percent(num, apart):
    wrong = covered = 0
    for clusters in drawn(num, apart):
        difference = by_cluster(clusters)
        assert difference is not None and difference.p is not None
        low, high = difference.interval
        wrong, covered = wrong + (difference.p <= 0.05), covered + (low <= 0 <= high)
    assert stats.binomtest(wrong, NUM, 0.05, alternative="greater").pvalue > 0.01
    assert covered == NUM - wrong


def test_pooled_pairs_would_err_in_17_percent_or_more():
    pooled = [stats.ttest_1samp(np.concatenate(clusters), 0).pvalue for clusters in drawn(8, 1.0)]
    assert np.mean(np.array(pooled) <= 0.05) > 0.17


def test_it_is_the_t_test_of_the_means():
    clusters = [[0.1, 0.3], [0.5], [-0.1, 0.0, 0.4]]
    difference = by_cluster(clusters)
    assert difference is not None
    assert difference.p == pytest.approx(stats.ttest_1samp([0.2, 0.5, 0.1], 0).pvalue)
    assert by_cluster(clusters[:2]) is None
