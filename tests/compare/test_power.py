"""What pairs find, against scipy and by brute force. docs/calibration.md has how often
an advice is kept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ablate.compare.statistics import anytime, power


@pytest.mark.parametrize(("num", "comparisons"), [(3, 1), (5, 3), (12, 3), (12, 9), (40, 1)])
def test_what_is_detectable_is_found_with_80_percent(num, comparisons):
    least = power.detectable(num, 0.05 / comparisons)
    critical = stats.t.ppf(1 - 0.05 / comparisons / 2, num - 1)
    found = stats.nct.sf(critical, num - 1, least * np.sqrt(num))
    assert found == pytest.approx(0.8, abs=1e-4)


@pytest.mark.parametrize("free", [2, 4, 8.5])
def test_of_a_spread_that_few_pairs_gave_80_percent_are_the_mean(free):
    least = power.detectable(12, 0.05 / 3, free)
    spreads = np.sqrt(free / stats.chi2.rvs(free, size=50_000, random_state=4))  # the true ones
    critical = stats.t.ppf(1 - 0.05 / 3 / 2, 11)
    found = stats.nct.sf(critical, 11, least / spreads * np.sqrt(12)).mean()
    assert found == pytest.approx(0.8, abs=0.01)
    at_face_value = stats.nct.sf(critical, 11, power.detectable(12, 0.05 / 3) / spreads * 12**0.5)
    assert at_face_value.mean() < 0.75


@pytest.mark.parametrize(("more", "text"), [(6, 0.0), (20, 2.0)])
def test_the_chance_is_that_of_the_posterior_by_brute_force(more, text):
    """Draws of effect and spread from the prior, weighted by the likelihood of what was seen.
    `text`: the spread over 30 blocks, in that of the pairs."""
    ratio, num, level = 0.8, 4, 0.05
    generator = np.random.default_rng(0)
    effects, logs = generator.normal(size=100_000), generator.uniform(-3, 3, 100_000)
    sigma = np.exp(logs)  # 1 / sigma is flat in its logarithm; the pairs' spread is 1
    squares = (num - 1) + num * (ratio - effects * sigma) ** 2
    weights = sigma**-num * np.exp(-squares / (2 * sigma**2))
    new = generator.normal(effects[:, None], 1, (len(effects), more)) * sigma[:, None]
    pattern = np.array([-1.5, -0.5, 0.5, 1.5])
    seen = ratio + pattern / pattern.std(ddof=1)
    every = np.concatenate([np.broadcast_to(seen, (len(effects), num)), new], 1)
    blocks = ratio + text * stats.zscore(np.arange(30), ddof=1)
    of_text = stats.t.ppf(1 - level / 4, 29) * text / np.sqrt(30)  # at half the level
    decided = np.zeros(len(effects), dtype=bool)
    for pairs in range(3, num + more + 1):
        t = np.sqrt(np.maximum(0, every[:, :pairs].mean(1) ** 2 - of_text**2))
        t = t / stats.sem(every[:, :pairs], axis=1)
        decided |= anytime.e_value(t, pairs) >= 1 / level
    expected = float(weights @ decided / weights.sum())
    found = power.chances(seen.tolist(), level, blocks.tolist())[more - 1]
    assert found == pytest.approx(expected, abs=0.03)


def test_what_was_decided_at_some_time_stays_so():
    deltas = (1.0, 1.01, 0.99, 1.0, -3.0)
    assert stats.ttest_1samp(deltas, 0).pvalue > 0.05 > anytime.p_value(deltas)
    assert power.more_pairs(deltas, 0.05) == 1


def test_no_number_where_none_up_to_100_would_do():
    assert power.more_pairs((1.0, -1.0, 0.9, -1.0, 0.1), 0.05) is None
    assert power.more_pairs((0.0, 0.0, 0.0), 0.05) is None  # no spread
    assert power.more_pairs((1.0,), 0.05) is None
    nearly = power.more_pairs((0.8, 1.0, 1.2, 0.1), 0.05 / 3)
    assert nearly is not None and 0 < nearly < 40
    later = power.more_pairs((0.8, 1.0, 1.2, 0.1), 0.05 / 30)
    assert later is not None and later > nearly
