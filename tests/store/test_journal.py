"""A journal's JSON has not changed: old ones are read, and the same keys are written."""

from __future__ import annotations

import math

import pytest

from ablate.config.identity import Trial
from ablate.errors import StoreError
from ablate.store import journal as journals
from ablate.store.attempt import Attempt
from ablate.store.journal import Journal
from ablate.store.numbers import finite, number, without_nan
from ablate.store.outcome import Outcome, Status
from ablate.store.store import Store

TRIAL = Trial(id="t1", values={"backbone": "lstm"}, seed=1, corpus_digest="c0")
OUTCOMES = [
    {"status": "completed", "metrics": {"valid_nll": 4.5}, "num_parameters": 7, "digest": "ab"},
    {"status": "pruned", "metrics": {}},
    {"status": "failed", "metrics": {}, "reason": "KeyError: 'x'", "frames": "File ..."},
    {"status": "failed", "metrics": {}, "reason": "out of memory", "error": "no room"},
    {"status": "failed", "metrics": {}, "reason": "its parent failed", "orphan_of": "t0"},
    {"status": "diverged", "metrics": {"valid_nll": "nan"}, "reason": "the loss became nan"},
]


@pytest.mark.parametrize("plain", OUTCOMES)
def test_an_outcome_is_read_and_written_as_it_was(tmp_path, plain):
    store = Store(tmp_path)
    old = {"config": {}, "attempts": [], "epochs": [], "outcome": plain}
    store.write_json(journals.key("t1"), {"trial": TRIAL.to_plain(), **old})
    journal = journals.read(store, "t1")
    assert journal.status == plain["status"] and journal.metrics == plain["metrics"]
    journal.write(store)
    written = store.read_json(journals.key("t1"))
    assert written == {"trial": written["trial"], **old, "deaths": []}


def test_a_running_trial_has_no_outcome(tmp_path):
    store = Store(tmp_path)
    Journal(TRIAL).write(store)
    assert store.read_json(journals.key("t1"))["outcome"] is None
    journal = journals.read(store, "t1")
    assert (journal.status, journal.metrics, journal.last_attempt) == (None, {}, Attempt())


def test_parts_of_a_later_version_are_ignored():
    assert Outcome.from_plain({**OUTCOMES[0], "more": 1}).digest == "ab"


@pytest.mark.parametrize("outcome", [{"metrics": {}}, {"status": "complete", "metrics": {}}])
def test_an_outcome_without_a_status_is_damaged(tmp_path, outcome):
    store = Store(tmp_path)
    store.write_json(journals.key("t1"), {"trial": TRIAL.to_plain(), "outcome": outcome})
    with pytest.raises(StoreError, match=r"trials/t1/journal\.json .* is damaged"):
        journals.read(store, "t1")


def test_a_status_is_its_text_wherever_it_is_shown():
    assert f"{Status.LEFT}" == str(Status.LEFT) == Status.LEFT == "left"


def test_numbers_that_json_cannot_express_survive_a_round_trip():
    values = [1, 2.5, math.nan, math.inf, -math.inf]
    assert [str(number(v)) for v in without_nan(values)] == ["1.0", "2.5", "nan", "inf", "-inf"]
    assert [finite(v) for v in without_nan(values)] == [1.0, 2.5, None, None, None]
    assert [number(v) for v in (True, None, "text", [1])] == [None] * 4
