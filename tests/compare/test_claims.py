"""The paper's differences beside ours, against numpy's and scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ablate.compare.formats import text
from ablate.compare.statistics.claims import claims
from ablate.compare.table.study_table import study_table
from ablate.compare.table.summary import summarise
from ablate.results.verdict import Verdict
from ablate.store.study_record import SearchRecord

LOSSES = {"base": [4.50, 4.52, 4.49], "gated": [4.47, 4.485, 4.46]}
PUBLISHED = {"base": 84.0, "gated": 81.1}


def study_of(by_hand, losses=LOSSES, published=PUBLISHED):
    study = by_hand(losses)
    study.arm_fields = {a: {"published": {"test": number}} for a, number in published.items()}
    return study


def claim_of(study):
    (claim,) = claims(summarise(study.record, study.journals))
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
    assert claim.same_direction and claim.in_interval == (low <= claim.theirs <= high)
    means = [np.exp(LOSSES[arm]).mean() for arm in ("gated", "base")]
    assert claim.apart == (f"−{means[1] - means[0]:.2f}", "−2.90")
    assert claim.direction == "same" and claim.verdict == Verdict.BETTER


@pytest.mark.parametrize(
    ("theirs", "direction", "inside"),
    [(86.0, "other", False), (84.0, "paper: none", False), (80.0, "same", False)],
)
def test_the_direction_and_where_the_papers_difference_lies(by_hand, theirs, direction, inside):
    claim = claim_of(study_of(by_hand, published={"base": 84.0, "gated": theirs}))
    assert (claim.direction, claim.in_interval) == (direction, inside)


def test_what_ours_does_not_decide_is_said(by_hand):
    apart = {"base": [4.5, 4.52, 4.49], "gated": [4.3, 4.6, 4.45]}
    claim = claim_of(study_of(by_hand, apart))
    assert claim.direction == "same, undecided" and claim.in_interval


def test_a_number_that_the_paper_does_not_print_is_no_claim(by_hand):
    study = study_of(by_hand, published={"gated": 81.1})
    assert claims(summarise(study.record, study.journals)) == []
    assert "paper claims" not in text.write(study_table(summarise(study.record, study.journals)))


def test_of_one_search_the_interval_is_of_the_settings_found(by_hand):
    study = study_of(by_hand)
    searches = tuple(SearchRecord(arm=arm, repeat=0, num_trials=2) for arm in LOSSES)
    study.record_fields = {"searches": searches}
    claim = claim_of(study)
    assert claim.of_settings_found and claim.verdict == Verdict.WITHHELD
    written = " ".join(text.write(study_table(summarise(study.record, study.journals))).split())
    assert "each row's own, and of the settings found" in written
    assert "none is called reproduced" in written
