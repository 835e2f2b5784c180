"""What each search found, by arm and repeat."""

from __future__ import annotations

from dataclasses import replace

from ablate.results.settings import row_names, winning_settings
from ablate.store.journal import Journal
from ablate.store.study_record import ArmRecord, SearchRecord, StudyRecord
from tests.support.records_by_hand import make_journal, make_study

ROWS = {"rate": "Learning rate", "head.experts": "Experts"}


def record_of(**of_search: object) -> StudyRecord:
    """Arm `a` was searched twice, `b` once, and `c` was not."""
    trials = [("a1", "a2"), ("a3",), ("b1",)]
    searches = tuple(
        SearchRecord(arm=ids[0][0], repeat=index % 2, num_trials=2, trials=ids, **of_search)
        for index, ids in enumerate(trials)
    )
    arms = tuple(ArmRecord(name=name) for name in "abc")
    return replace(make_study(), base_arm="a", arms=arms, searches=searches)


def trial(name: str, config: dict, nll: float, status: str = "completed") -> Journal:
    metrics = {"valid_ppl": 1.0, "valid_nll": nll} if status == "completed" else {}
    return replace(make_journal(name, status=status, metrics=metrics), config=config)


JOURNALS = {
    "a1": trial("a1", {"rate": 0.1, "head.experts": 3, "batch": 20}, 4.0),
    "a2": trial("a2", {"rate": 0.2, "head.experts": 3, "batch": 20}, 3.0),
    "a3": trial("a3", {"rate": 0.3, "batch": 20}, 3.5),
    "b1": trial("b1", {"rate": 0.4, "batch": 20}, 3.0, "diverged"),
}


def test_a_search_that_is_over_has_its_winner_s_settings():
    record = record_of(rows=ROWS, ended=True)
    over = [replace(s, chosen=c) for s, c in zip(record.searches, ("a1", "a3", None), strict=True)]
    found = winning_settings(replace(record, searches=tuple(over)), JOURNALS)
    assert found == {"a": {0: {"rate": 0.1, "head.experts": 3}, 1: {"rate": 0.3}}}


def test_what_an_inactive_row_left_at_its_default_was_not_found():
    journal = JOURNALS["a2"]
    tried = {"rate": 0.2, "batch": 20}
    inactive = {**JOURNALS, "a2": replace(journal, trial=replace(journal.trial, values=tried))}
    found = winning_settings(record_of(rows=ROWS), inactive, so_far=True, active=True)
    assert found["a"][0] == {"rate": 0.2}


def test_a_running_search_has_only_a_best_so_far():
    record = record_of(rows=ROWS)
    assert winning_settings(record, JOURNALS) == {}
    found = winning_settings(record, JOURNALS, so_far=True)
    assert found == {"a": {0: {"rate": 0.2, "head.experts": 3}, 1: {"rate": 0.3}}}


def test_of_an_older_record_the_fields_that_differ_between_trials_are_known():
    found = winning_settings(record_of(), JOURNALS, so_far=True)
    assert found["a"][0] == {"rate": 0.2}
    assert row_names(record_of()) == {} and row_names(record_of(rows=ROWS)) == ROWS
