"""The t-test over clusters' means. docs/calibration.md has how often it errs."""

from __future__ import annotations

import pytest
from scipy import stats

from ablate.compare.statistics.clusters import by_cluster


def test_it_is_the_t_test_of_the_means():
    clusters = [[0.1, 0.3], [0.5], [-0.1, 0.0, 0.4]]
    difference = by_cluster(clusters)
    assert difference is not None
    assert difference.p == pytest.approx(stats.ttest_1samp([0.2, 0.5, 0.1], 0).pvalue)
    assert by_cluster(clusters[:2]) is None
