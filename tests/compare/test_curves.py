"""Budget curves against enumeration; frozen and re-tuned deltas side by side."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ablate.compare.judged import Judged
from ablate.compare.statistics.curves import budget_curves, expected_best
from ablate.compare.table.other_scales import frozen_and_tuned, tables_of_other_scales
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.study_record import SearchRecord
from tests.support.tables import written


@pytest.mark.parametrize("values", [(3.0, 1.0, 2.0, 5.0), (1.0, 1.0, 2.0), (4.0,)])
def test_the_expected_best_is_that_of_all_choices(values):
    curve = expected_best(values)
    assert len(curve) == len(values)
    for k, (mean, spread) in enumerate(curve, 1):
        best = [min(draw) for draw in itertools.combinations(values, k)]
        assert mean == pytest.approx(np.mean(best))
        assert spread == pytest.approx(np.std(best), abs=1e-7)


def searched(by_hand, trials, repeats=1, **fields):
    """An arm with searches of these outcomes: nats, or a status."""
    study = by_hand({"base": [4.0] * 3})
    searches = []
    for repeat in range(repeats):
        ids = []
        for index, outcome in enumerate(trials):
            trial = f"s{repeat}-{index}"
            ids.append(trial)
            if isinstance(outcome, str):
                study.end(trial, outcome, reason="out of memory")
            elif outcome is not None:
                study.end(trial, "completed", metrics={"valid_nll": outcome})
        searches.append(
            SearchRecord(arm="base", repeat=repeat, num_trials=len(trials), trials=tuple(ids))
        )
    study.record_fields = {"searches": tuple(searches), **fields}
    return study


def test_a_search_is_shown_as_it_went_and_in_expectation(by_hand):
    study = searched(by_hand, [4.5, 4.7, 4.1])
    (curve,) = budget_curves(Judged(study.record, study.journals))
    assert [point.loss for point in curve.as_found[0]] == [4.5, 4.5, 4.1]
    assert [point.tokens for point in curve.as_found[0]] == [2000, 4000, 6000]
    assert [point.loss for point in curve.expected] == pytest.approx(
        [mean for mean, _ in expected_best([4.5, 4.7, 4.1])]
    )
    assert curve.expected[2].tokens == 6000


@pytest.mark.parametrize("spoilt", ["diverged", "pruned"])
def test_a_trial_that_came_to_nothing_has_spent_its_budget(by_hand, spoilt):
    study = searched(by_hand, [spoilt, 4.7, 4.1])
    (curve,) = budget_curves(Judged(study.record, study.journals))
    assert [point.loss for point in curve.as_found[0]] == [4.7, 4.7, 4.1]
    assert (curve.num_trials, curve.num_spoilt) == (3, 1)
    assert curve.expected[0].loss == pytest.approx((4.7 + 4.7 + 4.1) / 3)


def test_searches_of_how_a_model_is_judged_are_not_mixed_with_those_of_settings(by_hand):
    study = searched(by_hand, [4.5, 4.1], repeats=2)
    judged = SearchRecord(arm="base", repeat=0, num_trials=1, seed_index=0, trials=("judged",))
    study.end("judged", "completed", metrics={"valid_nll": 3.0})
    both = (*study.record_fields["searches"], judged)
    study.record_fields["searches"] = both
    (curve,) = budget_curves(Judged(study.record, study.journals))
    assert (curve.num_trials, curve.best, len(curve.as_found)) == (4, 4.1, 2)
    study.record_fields["searches"] = (judged,)
    (alone,) = budget_curves(Judged(study.record, study.journals))
    assert (alone.num_trials, alone.best) == (1, 3.0)


def test_searches_are_averaged_each_by_itself(by_hand):
    study = searched(by_hand, [4.5, 4.1], repeats=2)
    (curve,) = budget_curves(Judged(study.record, study.journals))
    assert len(curve.expected) == len(curve.as_found) == 2
    assert curve.expected[1].loss == pytest.approx(expected_best([4.5, 4.1])[1][0])


ARMS = ("base", "better", "new")


def two_studies(by_hand, **tuned_fields):
    losses = {"base": [4.0, 4.1, 4.2], "better": [3.8, 3.91, 4.02]}
    frozen = by_hand(losses)
    tuned = by_hand({"base": [3.9, 3.91, 3.95], "better": [3.9, 3.92, 3.94], "new": [3.8] * 3})
    searches = tuple(SearchRecord(arm=arm, repeat=0, num_trials=4) for arm in tuned.losses)
    tuned.record_fields = {"scale": "tuned", "searches": searches, **tuned_fields}
    return frozen, tuned


def two_scales(by_hand, **tuned_fields):
    return [Judged(s.record, s.journals) for s in two_studies(by_hand, **tuned_fields)]


def test_frozen_and_re_tuned_deltas_are_side_by_side(by_hand):
    table = frozen_and_tuned(*two_scales(by_hand))
    assert table is not None
    titles, rows = table.headings, table.rows
    assert titles[:3] == ["arm", "Δ frozen (laptop)", "verdict"]
    assert titles[3:] == ["Δ re-tuned (tuned; of the settings found)", "verdict"]
    assert [row[0] for row in rows] == ["base", "better"]
    assert (rows[1][2], rows[1][4]) == ("better", "no verdict")


def test_with_three_searches_an_arm_both_have_verdicts(by_hand):
    searches = [SearchRecord(arm=a, repeat=r, num_trials=4) for a in ARMS for r in range(3)]
    table = frozen_and_tuned(*two_scales(by_hand, searches=tuple(searches), num_seeds=1))
    assert table is not None
    titles, rows = table.headings, table.rows
    assert titles[3] == "Δ re-tuned (tuned)"
    assert rows[1][2] == "better" and rows[1][4].startswith("undecided")


def test_scales_of_other_corpora_or_without_a_search_are_not_set_side_by_side(by_hand):
    frozen, tuned = two_scales(by_hand)
    assert frozen_and_tuned(tuned, frozen) is None
    assert frozen_and_tuned(frozen, frozen) is None
    assert frozen_and_tuned(*two_scales(by_hand, corpus_digest="another")) is None


def test_the_table_of_one_scale_shows_the_other_scale_too(by_hand, tmp_path):
    store, (frozen, tuned) = Store(str(tmp_path)), two_studies(by_hand)
    for study in (frozen, tuned):
        study_record.write(store, study.record)
        for journal in study.journals.values():
            journal.write(store)
    summary = Judged(frozen.record, frozen.journals)
    (table,) = tables_of_other_scales(summary, store)
    assert table == frozen_and_tuned(*two_scales(by_hand))
    assert "Δ re-tuned" not in written(summary)
    for form in ("markdown", "latex", "html"):
        heading = "re-tuned (tuned; of the settings found)"
        assert heading in written(summary, form, other_scales=[table])
    headings = written(summary, other_scales=[table]).split("\n\n")[-1].split("\n")[:3]
    assert max(map(len, headings)) < 80  # in lines, so that the arms' names need not wrap
