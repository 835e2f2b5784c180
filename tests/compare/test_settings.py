"""What a table says of settings: found by searches, different besides the arm's own, and alike."""

from __future__ import annotations

from dataclasses import replace

from ablate.compare.judged import Judged
from ablate.store.study_record import SearchRecord
from tests.support.tables import written

BASE = (4.10, 4.12, 4.09, 4.11, 4.13)
OTHER = (4.00, 4.03, 3.98, 4.02, 4.04)


def configured(by_hand, configs, **fields):
    study = by_hand({arm: BASE if arm == "base" else OTHER for arm in configs})
    for arm, config in configs.items():
        for index in range(len(BASE)):
            trial = f"{arm}-{index}"
            study.journals[trial] = replace(study.journals[trial], config=config)
    study.arm_fields = fields
    return study


def notes_of(study) -> str:
    return "\n".join(Judged(study.record, study.journals).notes)


def test_what_arms_differ_in_besides_their_own_changes_is_said(by_hand):
    common = {"head.experts": 15, "head.bias": False, "optimizer.rate": 1.0}
    doc = {"head.experts": [3, 1], "head.bias": True, "optimizer.rate": 1.0}
    configs = {"base": {"head": "mos", **common}, "doc": {"head": "doc", **doc, "head.new": 1}}
    study = configured(by_hand, configs, doc={"changes": {"head.experts": [15, 5]}})
    notes = notes_of(study)
    assert "doc: head, head.bias, head.new." in notes
    assert "At scale laptop trained with head.experts = [3, 1] instead of [15, 5] (doc)." in notes
    # A technique that the study lists brings its own fields.
    study.arm_fields = {"doc": {"changes": {"head": "doc", "head.experts": [3, 1]}}}
    assert "doc: head.bias." in notes_of(study) and "At scale" not in notes_of(study)


def test_arms_that_differ_in_what_the_study_lists_have_no_note(by_hand):
    configs = {"base": {"a": 1, "b": 2}, "other": {"a": 2, "b": 2}}
    study = configured(by_hand, configs, other={"changes": {"a": 2}})
    assert "Also different" not in notes_of(study) and "At scale" not in notes_of(study)


def test_many_differences_are_a_few_lines(by_hand):
    fields = [f"{owner}.{i}" for owner in "abcdefgh" for i in range(4)]
    configs = {"base": dict.fromkeys(fields, 1)} | {
        f"arm {i}": dict.fromkeys(fields[i:], 2) | dict.fromkeys(fields[:i], 1) for i in range(12)
    }
    note = notes_of(configured(by_hand, configs))
    assert "a.* (4 fields)" in note and "7 more" in note and len(note) < 900


def test_a_setting_that_is_never_read_is_not_undecided(by_hand):
    study = by_hand({"base": BASE, "unread": BASE, "other": OTHER})
    summary = Judged(study.record, study.journals)
    comparison = summary.arm("unread").comparison
    assert comparison is not None and comparison.verdict == "no verdict"
    text = written(summary)
    assert "same results as base arm" in text and "undecided" not in text and ">1000" not in text
    assert "was not read, or changed nothing" in " ".join(text.split())


def searched(by_hand, **of_search):
    study = by_hand({"base": BASE, "other": OTHER})
    searches = []
    for arm, rate in {"base": 0.0123456, "other": 2.0}.items():
        trial = f"{arm}-tried"
        study.end(trial, "completed", metrics={"valid_nll": 4.0})
        journal = study.journals[trial]
        tried = replace(journal.trial, values={"optimizer.rate": rate})
        config = {"optimizer.rate": rate, "optimizer.inactive": 7}
        study.journals[trial] = replace(journal, config=config, trial=tried)
        more = {"trials": (trial,), "chosen": trial, "ended": True, **of_search}
        searches.append(SearchRecord(arm=arm, repeat=0, num_trials=1, **more))
    study.record_fields = {"searches": tuple(searches)}
    return study


def test_what_searches_found_is_a_table_of_rows_and_arms(by_hand):
    study = searched(
        by_hand, rows={"optimizer.rate": "Learning rate", "optimizer.inactive": "Inactive"}
    )
    text = written(Judged(study.record, study.journals))
    found = text.split("Settings found by the searches")[1].split()
    assert " ".join(found).endswith("Learning rate 0.01235 2")
    assert "Learning rate" in written(Judged(study.record, study.journals), "markdown")


def test_a_field_that_arms_search_by_rows_of_their_own_has_the_names_of_all(by_hand):
    """The rates of two optimizers are one field; a search from another's winner has one row."""
    study = searched(by_hand)
    names = {"base": "Rate of SGD / Rate of AdamW", "other": "Rate of AdamW"}
    searches = (
        replace(search, rows={"optimizer.rate": names[search.arm]})
        for search in study.record_fields["searches"]
    )
    study.record_fields = {"searches": tuple(searches)}
    text = written(Judged(study.record, study.journals))
    found = " ".join(text.split("Settings found by the searches")[1].split())
    assert found.endswith("Rate of SGD / Rate of AdamW 0.01235 2")
