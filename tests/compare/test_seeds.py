"""Every seed's value, by arm: for people, and for programs."""

from __future__ import annotations

import csv
import io
import math

import pytest

from ablate.compare.formats import csv as as_csv
from ablate.compare.judged import Judged
from ablate.compare.table.seeds import numbers, seed_table
from ablate.store.study_record import SearchRecord


def test_a_row_has_an_arms_seeds_and_what_became_of_the_others(by_hand):
    study = by_hand({"base": [4.0, 4.1, None], "other": [3.9, 4.0, 4.1]})
    study.end("other-2", "diverged", metrics={})
    study.record_fields = {"first_seed": 13}
    table = seed_table(Judged(study.record, study.journals))
    assert table.headings == ["arm, perplexity of test", "13", "14", "15"]
    assert [*map(list, table.rows)] == [
        ["base", "54.60", "60.34", "to run"],
        ["other", "49.40", "54.60", "diverged"],
    ]


def test_of_tuned_arms_a_seed_is_one_of_a_search(by_hand):
    study = by_hand({"base": [4.0] * 6, "other": [3.9] * 6})
    searches = [
        SearchRecord(arm=a, repeat=r, num_trials=2) for a in study.losses for r in (0, 1, 2)
    ]
    study.record_fields = {"searches": tuple(searches), "num_seeds": 2}
    table = seed_table(Judged(study.record, study.journals))
    assert table.headings[1:4] == ["search 1 seed 1", "search 1 seed 2", "search 2 seed 3"]


def test_programs_get_a_row_for_each_trial_and_split(by_hand):
    study = by_hand({"base": [4.0, None], "other": [3.9, 4.0]})
    table = numbers(Judged(study.record, study.journals), "key")
    rows = [*csv.DictReader(io.StringIO(as_csv.write(table)))]
    assert len(rows) == 2 * 2 * 2
    known = {(r["arm"], r["seed"], r["split"]): r for r in rows}
    assert float(known["other", "1", "test"]["value"]) == pytest.approx(math.exp(3.9))
    assert (
        known["base", "2", "valid"]["value"] == ""
        and known["base", "2", "valid"]["status"] == "to run"
    )
    assert known["other", "2", "test"]["trial"] == "other-1"
