"""The paper's differences beside ours, against numpy's and scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ablate.compare.judged import Judged
from ablate.compare.statistics.claims import claims
from ablate.compare.table.beside_paper import beside_paper
from ablate.store.study_record import SearchRecord

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


@pytest.mark.parametrize(
    ("theirs", "inside"), [(80.1, False), (80.2, True), (82.6, True), (82.7, False)]
)
def test_another_run_of_ours_reaches_further_than_the_interval_of_the_mean(by_hand, theirs, inside):
    claim = claim_of(study_of(by_hand, published={"base": 84.0, "gated": theirs}))
    assert claim.ours.interval is not None
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


def test_ours_and_the_papers_stand_beside_each_other(by_hand):
    study = study_of(by_hand)
    (found,) = beside_paper(Judged(study.record, study.journals), "test")
    base, gated = (dict(zip(found.headings, row, strict=True)) for row in found.rows)
    assert (base["paper"], gated["paper"], base["within one run of ours"]) == ("84", "81.1", "")
    assert (gated["Δ from base, ours"], gated["paper's"]) == ("−3.1% [−3.8, −2.4]", "−3.5%")
    assert gated["within one run of ours"] == "yes"
    assert found.notes == ["Levels are not comparable: scale laptop."]


def test_a_number_that_the_paper_does_not_print_is_no_claim(by_hand):
    study = study_of(by_hand, published={"gated": 81.1})
    assert claims(Judged(study.record, study.journals)) == []
    (found,) = beside_paper(Judged(study.record, study.journals))
    assert "paper's" not in found.headings
