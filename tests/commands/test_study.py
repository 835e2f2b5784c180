"""How `ablate study` sums up what failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ablate.config.identity import Trial
from ablate.engine import failures
from ablate.store.journal import Journal
from ablate.store.outcome import Outcome, Status


def journal(trial_id: str, status: Status, **outcome: Any) -> Journal:
    trial = Trial(id=trial_id, values={}, seed=1, corpus_digest="", arm=trial_id)
    return Journal(trial, outcome=Outcome(status=status, **outcome))


def troubles(*known: Journal, listed: str = "", searched: tuple[str, ...] = ()) -> str:
    searches = [SimpleNamespace(trials=tuple(trials.split()), chosen=None) for trials in searched]
    trials = [SimpleNamespace(id=trial_id) for trial_id in listed.split()]
    record: Any = SimpleNamespace(trials=trials, searches=searches, key="q@s")
    return failures.troubles(record, {journal.trial.id: journal for journal in known})


def test_a_search_that_a_budget_stopped_has_not_failed_with_one_of_its_trials():
    diverged = journal("x", Status.DIVERGED, reason="loss became nan")
    assert troubles(diverged, journal("y", Status.COMPLETED), searched=("x y",)) == ""
    assert "1 of 1 trials failed" in troubles(diverged, searched=("x",))


def test_what_builds_on_a_failed_trial_is_counted_and_is_no_reason_of_its_own():
    failed = [journal(f"f{n}", Status.FAILED, reason=f"reason {n}") for n in range(3)]
    orphans = [
        journal(f"o{n}", Status.FAILED, reason=f"builds on {n}", orphan_of="f0") for n in range(9)
    ]
    known = [*orphans, *failed]
    said = troubles(*known, listed=" ".join(j.trial.id for j in known))
    assert said.startswith("12 of 12 trials failed or diverged")
    assert all(f"1 x failed, f{n} seed 1 first: reason {n}" in said for n in range(3))
    assert "builds on" not in said and "more reasons" not in said
