"""Many trials delivered at once: few transactions and readings, and still one run of each trial."""

from __future__ import annotations

import io
from typing import Any

import pytest
from sqlalchemy import event

from ablate.commands.sync import sync_records
from ablate.record import mlflow_records
from ablate.record.mlflow_records import sync
from ablate.record.sqlite_client import DatabaseTracking
from ablate.record.tracking import Refused
from ablate.store import journal as journals
from ablate.store.workspace import open_workspace
from tests.support.records_by_hand import (
    Workspace,
    finish,
    make_journal,
    make_study,
    trial_id,
    trial_runs,
    write,
    write_study,
)

BATCH = 5


class Killed(BaseException):
    """A process that was killed."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch) -> None:
    monkeypatch.setattr(DatabaseTracking, "batch", BATCH)


def prepare(workspace: Workspace, num: int) -> list[str]:
    write_study(workspace.store, make_study(trials=num))
    trials = [trial_id("mix", index) for index in range(num)]
    write(workspace.store, *map(make_journal, trials))
    return trials


def delivered(workspace: Workspace, **options: Any) -> mlflow_records.Delivery:
    found = sync(workspace.store, workspace.uri, workspace.artifacts, **options)
    return found["mix@laptop"]


def statements(workspace: Workspace, num: int, monkeypatch) -> tuple[int, int]:
    """How many commits, and how many statements but updates, it takes to deliver `num` trials."""
    prepare(workspace, num)
    recorder = workspace.recorder(make_study(trials=num))
    recorder.open()
    seen: dict[str, int] = {"commits": 0, "statements": 0}

    def count(name: str) -> None:
        seen[name] += 1

    engine = recorder._tracking._engine  # type: ignore[union-attr]
    event.listen(engine, "commit", lambda _: count("commits"))
    event.listen(
        engine,
        "before_cursor_execute",
        lambda _db, _cursor, text, *_: text.startswith("UPDATE") or count("statements"),
    )
    assert recorder.deliver_all(recorder.backlog()).delivered == num
    return seen["commits"], seen["statements"]


def test_a_batch_is_one_commit_and_a_few_statements_whatever_its_size(
    make_workspace, monkeypatch
) -> None:
    """A commit for each trial delivers 23 trials a second, and a search for each ever fewer."""
    commits, few = statements(make_workspace(), BATCH, monkeypatch)
    assert commits == 1 and few < 16
    monkeypatch.setattr(DatabaseTracking, "batch", 4 * BATCH)
    assert statements(make_workspace(), 4 * BATCH, monkeypatch) == (1, few)
    monkeypatch.setattr(DatabaseTracking, "batch", BATCH)
    assert statements(make_workspace(), 4 * BATCH, monkeypatch)[0] == 4


def test_a_journal_that_was_never_delivered_is_read_once(workspace, monkeypatch) -> None:
    trials = prepare(workspace, 2 * BATCH + 1)
    reads: list[str] = []
    read = journals.read
    monkeypatch.setattr(journals, "read", lambda *key: reads.append(key[1]) or read(*key))
    assert delivered(workspace).delivered == len(trials)
    assert reads == trials


def test_trials_that_have_not_started_are_not_delivered(workspace) -> None:
    trials = prepare(workspace, 3)
    write_study(workspace.store, make_study(trials=5))
    assert delivered(workspace).delivered == 3
    assert set(trial_runs(workspace.uri)) == set(trials)


@pytest.mark.parametrize("at", ["write", "commit"])
def test_a_sync_that_is_killed_in_a_batch_is_resumed(workspace, monkeypatch, at) -> None:
    """The batch is there as a whole or not at all; the next sync delivers the rest, once."""
    trials = prepare(workspace, 3 * BATCH)
    with monkeypatch.context() as patch:
        put_all, calls = DatabaseTracking.put_all, []

        def killed(self: Any, experiment: str, batch: Any) -> Any:
            calls.append(batch)
            if len(calls) == 5 and at == "write":  # the study's own run and its arms' come first
                patch.setattr(self, "_store_artifacts", dies)
            put = put_all(self, experiment, batch)
            if len(calls) == 5:
                raise Killed  # before the batch is noted
            return put

        def dies(*_: Any) -> None:
            raise Killed

        patch.setattr(DatabaseTracking, "put_all", killed)
        with pytest.raises(Killed):
            delivered(workspace)
    there = len(trial_runs(workspace.uri))
    assert there == (2 if at == "write" else 3) * BATCH
    assert delivered(workspace).complete
    assert set(trial_runs(workspace.uri)) == set(trials)
    assert delivered(workspace).delivered == 0


def test_runs_that_a_server_made_are_found_among_those_of_a_batch(workspace) -> None:
    trials = prepare(workspace, BATCH)
    recorder = workspace.recorder(make_study(trials=BATCH), "client")
    recorder.open()
    recorder.deliver(trials[2])
    by_server = trial_runs(workspace.uri)[trials[2]]
    again = workspace.recorder(make_study(trials=BATCH), "database")
    again.open()
    again._note.forget(trials[2])
    assert again.deliver_all(trials).delivered == BATCH
    assert set(trial_runs(workspace.uri)) == set(trials)
    after = trial_runs(workspace.uri)[trials[2]]
    assert (after["id"], after["history"]) == (by_server["id"], by_server["history"])


def test_a_trial_that_is_refused_holds_up_no_other_of_its_batch(workspace, monkeypatch) -> None:
    trials = prepare(workspace, BATCH)
    put_all = DatabaseTracking.put_all

    def refusing(self: Any, experiment: str, batch: Any) -> Any:
        if trials[1] in [run.identity[1] for run in batch]:
            raise Refused("no")
        return put_all(self, experiment, batch)

    monkeypatch.setattr(DatabaseTracking, "put_all", refusing)
    result = delivered(workspace)
    assert (result.delivered, result.refused) == (BATCH - 1, {trials[1]: "no"})
    assert set(trial_runs(workspace.uri)) == {*trials} - {trials[1]}


def test_trials_that_start_over_lose_their_points_and_others_of_the_batch_keep_theirs(
    workspace,
) -> None:
    trials = prepare(workspace, BATCH)
    assert delivered(workspace).complete
    restarted = make_journal(trials[0], 1)
    restarted.note(started="2026-03-04T05:06:07Z")
    longer = make_journal(trials[1], 4)
    write(workspace.store, restarted, longer)
    assert delivered(workspace).delivered == 2
    known = trial_runs(workspace.uri)
    assert [len(known[t]["history"]["train_nll"]) for t in trials[:3]] == [1, 4, 3]


def test_runs_with_many_points_make_smaller_batches(workspace, monkeypatch) -> None:
    prepare(workspace, 4)
    monkeypatch.setattr(mlflow_records, "MOST_VALUES", 20)
    sizes: list[int] = []
    put_all = DatabaseTracking.put_all
    monkeypatch.setattr(
        DatabaseTracking,
        "put_all",
        lambda self, *what: sizes.append(len(what[1])) or put_all(self, *what),
    )
    recorder = workspace.recorder(make_study(trials=4))
    recorder.open()
    sizes.clear()
    assert recorder.deliver_all(recorder.backlog()).delivered == 4
    assert sizes == [2, 2]  # of 12 points each


def test_a_delivery_tells_how_far_it_is(workspace) -> None:
    trials = prepare(workspace, 2 * BATCH + 1)
    told: list[tuple[str, int, int]] = []
    delivered(workspace, on_progress=lambda *what: told.append(what))
    num = len(trials)
    assert told == [("mix@laptop", done, num) for done in (BATCH, 2 * BATCH, num)]
    told.clear()
    assert delivered(workspace, on_progress=lambda *what: told.append(what)).delivered == 0
    assert told == []


@pytest.mark.parametrize("terminal", [True, False])
def test_the_command_shows_how_far_it_is_on_a_terminal(workspace, monkeypatch, terminal) -> None:
    prepare(workspace, BATCH + 1)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", stream)
    assert sync_records(open_workspace(str(workspace.folder))) == 0
    shown = "\rmix@laptop: 5 of 6 trials\rmix@laptop: 6 of 6 trials\n"
    assert stream.getvalue() == (shown if terminal else "")


def test_a_running_study_s_finished_trials_are_delivered_from_one_reading(
    workspace, monkeypatch
) -> None:
    trials = prepare(workspace, 3)
    write(workspace.store, make_journal(trials[1], 1, None))
    reads: list[str] = []
    read = journals.read
    monkeypatch.setattr(journals, "read", lambda *key: reads.append(key[1]) or read(*key))
    assert delivered(workspace, running=["mix@laptop"]).delivered == 2
    assert reads == trials


def test_what_a_server_has_is_read_without_what_is_not_compared(workspace) -> None:
    """A trial's run has some forty tags: with 100,000 trials that is too much to read."""
    prepare(workspace, 2)
    recorder = workspace.recorder(make_study())
    recorder.open()
    finish(recorder)
    (_, first, _) = sorted(
        recorder._tracking.recorded(["mix@laptop"]), key=lambda run: len(run.tags)
    )  # type: ignore[union-attr]
    assert set(first.tags) == {"ablate.trial", "ablate.mark", "ablate.study_key"}
