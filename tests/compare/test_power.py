"""What pairs find, against scipy and by brute force. docs/calibration.md has how often
an advice is kept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ablate.compare.statistics import power


@pytest.mark.parametrize(("num", "comparisons"), [(3, 1), (5, 3), (12, 3), (12, 9), (40, 1)])
def test_what_is_detectable_is_found_with_80_percent(num, comparisons):
    least = power.detectable(num, 0.02, 0.05 / comparisons)
    critical = stats.t.ppf(1 - 0.05 / comparisons / 2, num - 1)
    found = stats.nct.sf(critical, num - 1, least / 0.02 * np.sqrt(num))
    assert found == pytest.approx(0.8, abs=1e-4)


def test_the_chance_is_that_of_the_posterior_by_brute_force():
    """Draws of effect and spread from the prior, weighted by the likelihood of what was seen."""
    ratio, num, more, level = 0.8, 4, 6, 0.05
    generator = np.random.default_rng(0)
    effects, logs = generator.normal(size=100_000), generator.uniform(-3, 3, 100_000)
    sigma = np.exp(logs)  # 1 / sigma is flat in its logarithm; the pairs' spread is 1
    squares = (num - 1) + num * (ratio - effects * sigma) ** 2
    weights = sigma**-num * np.exp(-squares / (2 * sigma**2))
    new = generator.normal(effects[:, None], 1, (len(effects), more)) * sigma[:, None]
    pattern = np.array([-1.5, -0.5, 0.5, 1.5])
    seen = ratio + pattern / pattern.std(ddof=1)
    every = np.concatenate([np.broadcast_to(seen, (len(effects), num)), new], 1)
    decided = stats.ttest_1samp(every, 0, axis=1).pvalue <= level
    expected = float(weights @ decided / weights.sum())
    assert power.chance(ratio, num, more, level) == pytest.approx(expected, abs=0.03)


def test_no_number_where_none_up_to_100_would_do():
    assert power.more_pairs((1.0, -1.0, 0.9, -1.0, 0.1), 0.05) is None
    assert power.more_pairs((0.0, 0.0, 0.0), 0.05) is None  # no spread
    assert power.more_pairs((1.0,), 0.05) is None
    nearly = power.more_pairs((0.8, 1.0, 1.2, 0.1), 0.05 / 3)
    assert nearly is not None and 0 < nearly < 20
    later = power.more_pairs((0.8, 1.0, 1.2, 0.1), 0.05 / 30)
    assert later is not None and later > nearly
