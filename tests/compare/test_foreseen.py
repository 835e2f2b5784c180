"""What a plan is told before anything is trained."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ablate.compare import crossing
from ablate.compare.foreseen import foreseen
from ablate.compare.statistics.looks import largest_p
from ablate.compare.statistics.power import detectable
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.study_record import SearchRecord


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path))


@pytest.fixture
def study(by_hand):
    """Two arms next to the base, whose differences have spreads of about 0.02 and 0.04."""
    draws = np.random.default_rng(0).normal(0, 1, (3, 6))
    base = 4 + 0.1 * draws[0]
    losses = {"base": base, "a": base + 0.02 * draws[1], "b": base + 0.04 * draws[2]}
    return by_hand({name: values.tolist() for name, values in losses.items()})


def written(store, study, **fields):
    record = replace(study.record, **fields)
    study_record.write(store, record)
    for journal in study.journals.values():
        journal.write(store)
    return record


def test_the_spread_is_that_of_the_studys_own_results(store, study):
    record = written(store, study)
    base, a, b = (np.array(losses) for losses in study.losses.values())
    spread = np.sqrt(np.mean([np.var(arm - base, ddof=1) for arm in (a, b)]))
    text = foreseen(record, store, None)
    found = float(text.partition("difference of ")[2].partition("%")[0])
    least = np.log1p(found / 100) / spread * np.sqrt(6)
    free = 2 * 5 / (1 + 1 / 4)  # of two spreads, whose squares correlate by a quarter
    spreads = np.sqrt(free / stats.chi2.rvs(free, size=50_000, random_state=4))  # the true ones
    power = stats.nct.sf(stats.t.ppf(1 - 0.05 / 2 / 2, 5), 5, least / spreads).mean()
    assert power == pytest.approx(0.8, abs=0.02)
    assert f"with a probability of 80%, at the spread of {record.key}. With Scale(seeds=" in text


def test_another_study_of_the_same_base_and_corpus_tells_too(store, study):
    recorded = written(store, study, name="earlier")
    arms = tuple(replace(arm, recipe="table2") for arm in recorded.arms)
    written(store, study, name="earlier", arms=arms)
    planned = replace(recorded, name="now", arms=arms)
    assert "at the spread of earlier@laptop" in foreseen(planned, store, None)
    other = replace(planned, corpus_digest="another")
    assert "it is unknown until" in foreseen(other, store, None)


def test_repeats_of_the_base_arm_alone_tell_how_large_a_difference_can_show(store, by_hand):
    """As if pairs shared no noise."""
    losses = np.random.default_rng(1).normal(4, 0.1, 6)
    alone = by_hand({"base": losses.tolist()})
    record = written(store, alone)
    two = by_hand({"base": losses.tolist(), "a": losses.tolist()}).record
    text = foreseen(two, store, None)
    assert f"two arms that vary as base alone does in {record.key}" in text
    found = float(text.partition("difference of ")[2].partition("%")[0])
    spreads = detectable(6, 0.05, 5)
    expected = 100 * np.expm1(spreads * np.sqrt(2) * np.std(losses, ddof=1))
    assert found == pytest.approx(expected, rel=0.1)


def test_the_looks_that_it_proposes_find_half_of_the_difference(store, study):
    """By the test of two looks that the table then makes, over 4,000 studies drawn anew."""
    text = foreseen(study.record, store, 0.02)
    first, last = map(int, re.search(r"looks=\((\d+), (\d+)\)", text).groups())
    assert first == 6 < last
    half = detectable(6, 0.05 / 2) / 2
    pairs = np.random.default_rng(5).normal(half, 1, (4_000, last))
    ps = [stats.ttest_1samp(pairs[:, :num], 0, axis=1).pvalue for num in (first, last)]
    decided = np.minimum(*ps) <= largest_p(0.05 / 2, (first, last))
    assert decided.mean() > 0.78
    planned = replace(study.record, looks=(6,), num_seeds=6)
    assert "looks=(" in foreseen(planned, store, 0.02)
    several = replace(study.record, looks=(3, 6))
    assert "With Scale" not in foreseen(several, store, 0.02)


def test_where_no_verdict_can_come_it_says_so(store, study):
    few = replace(study.record, num_seeds=2)
    assert "No verdict can come of 2 seeds" in foreseen(few, store, 0.02)
    search = SearchRecord(arm="a", repeat=0, num_trials=4)
    once = replace(study.record, searches=(search,))
    assert "No verdict can come of 1 search an arm" in foreseen(once, store, 0.02)


@pytest.mark.parametrize(
    ("curves", "epoch"),
    [
        ([[5, 4, 3], [4, 3.5, 3.4], [6, 5, 4], [7, 6, 5], [8, 7, 6], [9, 8, 7]], None),
        ([[9, 4, 3], [4, 3.5, 3.4], [6, 5, 4], [7, 6, 5], [8, 7, 6], [5, 8, 7]], 1),
        ([[1, 9, 9, 1], [4, 3, 3, 3], [6, 5, 4, 4], [7, 6, 5, 5], [8, 7, 6, 6], [9, 8, 7, 7]], 3),
    ],
)
def test_the_epoch_after_which_the_winner_is_stopped(curves, epoch):
    assert crossing.lost_at(curves) == epoch


def test_a_plan_is_warned_where_recorded_curves_cross(store, study):
    """All trials of the fixture end at 4.5 after 5.0: none is behind."""
    ids = tuple(study.journals)
    search = SearchRecord(arm="a", repeat=0, num_trials=len(ids), trials=ids)
    record = written(store, study, searches=(search,))
    assert crossing.warning(record, store) == ""
    for number, journal in enumerate(study.journals.values()):
        first, last = journal.epochs
        journal.epochs[0] = replace(first, metrics={"valid_nll": 5.0 - number / 10})
        journal.epochs[1] = replace(last, metrics={"valid_nll": 4.0 + number / 10})
    record = written(store, study, searches=(search,))
    text = crossing.warning(record, store)
    assert text.startswith("Early stopping would have stopped the winner of 1 of 1 recorded search")
    assert "after epoch 1" in text
