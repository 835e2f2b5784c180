"""The word `same`: two one-sided tests, and the table that says it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ablate.compare.judged import Judged
from ablate.compare.statistics.equivalence import is_within
from ablate.compare.statistics.paired import paired_difference
from ablate.config.metrics import ACCURACY, PERPLEXITY
from ablate.errors import StudyError
from ablate.results.sizes import check_size, shown_size, size_on_scale
from tests.support.tables import written

ONE_PERCENT = np.log(1.01)


@pytest.mark.parametrize("comparisons", [1, 3])
def test_it_is_two_one_sided_tests(comparisons):
    generator = np.random.default_rng(comparisons)
    words = []
    for _ in range(100):
        deltas = generator.normal(generator.uniform(-1, 1), 0.8, 8)
        p = max(
            stats.ttest_1samp(deltas, -1, alternative="greater").pvalue,
            stats.ttest_1samp(deltas, 1, alternative="less").pvalue,
        )
        word = is_within(paired_difference(deltas), 1.0, comparisons=comparisons)
        assert word == (p < 0.05 / comparisons)
        words.append(word)
    assert 10 < sum(words) < 90


def study(by_hand, *shifts: float, margin: float | None = ONE_PERCENT):
    """Arms that differ from the base arm by these nats, with a spread of a thousandth."""
    base = np.random.default_rng(0).normal(4.0, 0.1, 8)
    noise = np.random.default_rng(1).normal(0, 1e-3, (len(shifts), 8))
    arms = {f"{at:+}": (base + at + n).tolist() for at, n in zip(shifts, noise, strict=True)}
    of = by_hand({"base": base.tolist(), **arms})
    of.record_fields = {"margin": margin}
    return Judged(of.record, of.journals)


def test_the_words_of_a_table(by_hand):
    summary = study(by_hand, 0.0, -0.005, -0.1)
    words = [arm.comparison.verdict for arm in summary.arms if arm.comparison]
    assert words == ["same", "better", "better"]
    assert [a.comparison.less_than for a in summary.arms if a.comparison] == ["1%", "1%", ""]
    text = " ".join(written(summary).split())
    assert "better, by less than 1%" in text
    assert "same: less than 1% apart, by two one-sided tests (the 96.67% interval" in text
    assert "within,more" in written(summary, "csv").splitlines()[0]


def test_a_decided_row_that_may_be_within_keeps_its_share_of_the_error(by_hand):
    """Holm's correction would test the second row as if it were alone."""
    base = np.random.default_rng(0).normal(4.0, 0.1, 8)
    shape = np.linspace(-1, 1, 8)
    arms = {
        "clear": -0.5 + 0.01 * shape,
        "close": -0.01 + 0.004 * shape,
        "last": 0.02 * shape + 0.012,
    }
    losses = {name: (base + at).tolist() for name, at in arms.items()}
    p = {}
    for margin in (None, ONE_PERCENT):
        of = by_hand({"base": base.tolist(), **losses})
        of.record_fields = {"margin": margin}
        summary = Judged(of.record, of.journals)
        p[margin] = [arm.comparison.p_holm for arm in summary.arms if arm.comparison]
    alone = stats.ttest_1samp(arms["last"], 0).pvalue
    assert p[None][2] == pytest.approx(alone)
    assert p[ONE_PERCENT][2] == pytest.approx(2 * alone)  # `close` stays, `clear` leaves
    assert p[ONE_PERCENT][:2] == pytest.approx(p[None][:2])


def test_lost_seeds_are_not_the_same(by_hand):
    of = by_hand({"base": [4.0, 4.1, 4.2, 4.3], "other": [4.0, 4.1, 4.2001, 4.3]})
    of.record_fields = {"margin": ONE_PERCENT}
    of.end("other-1", "diverged")
    comparison = Judged(of.record, of.journals).arm("other").comparison
    assert comparison is not None
    assert (comparison.verdict, comparison.reason) == ("undecided", "lost seeds")


def test_percentages_are_of_ratios():
    assert size_on_scale("margin", "1%", PERPLEXITY, "s") == pytest.approx(ONE_PERCENT)
    assert size_on_scale("margin", 0.005, ACCURACY, "s") == 0.005
    assert size_on_scale("margin", None, ACCURACY, "s") is None
    assert (shown_size(ONE_PERCENT, PERPLEXITY), shown_size(0.005, ACCURACY)) == ("1%", "0.5")
    assert shown_size(np.log(4), PERPLEXITY) == "300%"
    with pytest.raises(StudyError, match=r"margin=0.005 is 0.5"):
        size_on_scale("margin", "1%", ACCURACY, "s")


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("inf"), "1", "%", "-1%", "1%%", "some"])
def test_a_wrong_margin_is_refused(wrong):
    with pytest.raises(StudyError, match="a number above 0, or a percentage"):
        check_size("margin", wrong, "Study")
