"""The paper's differences beside ours, against numpy's and scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ablate.compare.formats import text
from ablate.compare.judged import Judged
from ablate.compare.statistics.claims import claims
from ablate.compare.table.full_table import full_table as study_table
from ablate.results.verdict import Verdict
from ablate.store.study_record import SearchRecord
from tests.lab.calibration.rows.claims import replicated

LOSSES = {"base": [4.50, 4.52, 4.49], "gated": [4.47, 4.485, 4.46]}
PUBLISHED = {"base": 84.0, "gated": 81.1}


def study_of(by_hand, losses=LOSSES, published=PUBLISHED):
    study = by_hand(losses)
    study.arm_fields = {a: {"published": {"test": number}} for a, number in published.items()}
    return study


def claim_of(study):
    (claim,) = claims(Judged(study.record, study.journals))
    return claim


def test_a_claim_is_the_difference_of_both_on_the_scale_of_the_tests(by_hand):
    study = study_of(by_hand)
    claim = claim_of(study)
    assert study.record.published_scale is False, "at any scale"
    deltas = np.subtract(LOSSES["gated"], LOSSES["base"])
    low, high = stats.t.interval(0.95, 2, deltas.mean(), stats.sem(deltas))
    assert claim.ours.mean == pytest.approx(deltas.mean())
    assert claim.ours.interval == pytest.approx((low, high))
    assert claim.theirs == pytest.approx(np.log(81.1 / 84.0))
    reach = stats.t.ppf(0.975, 2) * deltas.std(ddof=1) * np.sqrt(1 + 1 / 3)
    digits = np.log(81.15 / 81.1) + np.log(84.05 / 84.0)
    assert claim.reach == pytest.approx(reach + digits)
    assert claim.same_direction and claim.within_one_run
    means = [np.exp(LOSSES[arm]).mean() for arm in ("gated", "base")]
    assert claim.apart == (f"−{means[1] - means[0]:.2f}", "−2.90")
    assert claim.direction == "same" and claim.verdict == Verdict.BETTER


@pytest.mark.parametrize(
    ("theirs", "direction", "inside"),
    [(86.0, "other", False), (84.0, "paper: none", False), (80.0, "same", False)],
)
def test_the_direction_and_where_the_papers_difference_lies(by_hand, theirs, direction, inside):
    claim = claim_of(study_of(by_hand, published={"base": 84.0, "gated": theirs}))
    assert (claim.direction, claim.within_one_run) == (direction, inside)


@pytest.mark.parametrize(
    ("theirs", "inside"), [(80.1, False), (80.2, True), (82.6, True), (82.7, False)]
)
def test_another_run_of_ours_reaches_further_than_the_interval_of_the_mean(by_hand, theirs, inside):
    claim = claim_of(study_of(by_hand, published={"base": 84.0, "gated": theirs}))
    low, high = claim.ours.interval
    assert not low <= claim.theirs <= high
    assert claim.within_one_run == inside


def test_the_seeds_of_a_search_are_no_searches(by_hand):
    """One more run is of another search, and varies as its seeds do, too."""
    draws = np.random.default_rng(4).normal(0, 0.01, (2, 12))
    study = study_of(by_hand, {"base": 4.5 + draws[0], "gated": 4.4 + draws[1]})
    searches = [SearchRecord(arm=a, repeat=r, num_trials=2) for a in LOSSES for r in range(3)]
    study.record_fields = {"searches": tuple(searches), "num_seeds": 4}
    claim = claim_of(study)
    pairs = (draws[1] - draws[0]).reshape(3, 4)
    square = pairs.mean(1).var(ddof=1) * (1 + 1 / 3) + pairs.var(1, ddof=1).mean() * (1 - 1 / 4)
    digits = np.log(81.15 / 81.1) + np.log(84.05 / 84.0)
    assert claim.reach == pytest.approx(stats.t.ppf(0.975, 2) * np.sqrt(square) + digits)


def test_a_perfect_replication_is_seldom_called_beyond_one_run_of_ours():
    found = replicated(np.random.default_rng(49), 2_000, seeds=5)
    assert found.ours.low < 5 < found.ours.high
    assert found.twin is not None and found.twin.percent > 25


def test_what_ours_does_not_decide_is_said(by_hand):
    apart = {"base": [4.5, 4.52, 4.49], "gated": [4.3, 4.6, 4.45]}
    claim = claim_of(study_of(by_hand, apart))
    assert claim.direction == "same, undecided" and claim.within_one_run


def test_a_number_that_the_paper_does_not_print_is_no_claim(by_hand):
    study = study_of(by_hand, published={"gated": 81.1})
    assert claims(Judged(study.record, study.journals)) == []
    assert "paper claims" not in text.write(study_table(Judged(study.record, study.journals)))


def test_of_one_search_the_interval_is_of_the_settings_found(by_hand):
    study = study_of(by_hand)
    searches = tuple(SearchRecord(arm=arm, repeat=0, num_trials=2) for arm in LOSSES)
    study.record_fields = {"searches": searches}
    claim = claim_of(study)
    assert claim.of_settings_found and claim.verdict == Verdict.WITHHELD
    written = " ".join(text.write(study_table(Judged(study.record, study.journals))).split())
    assert "each row's own, and of the settings found" in written
    assert "none is called reproduced" in written
