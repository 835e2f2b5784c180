"""A study on a real MLflow database: what its runs are, and that there is one of each."""

from __future__ import annotations

import gc
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from ablate.commands.sync import sync_records
from ablate.errors import DamagedError
from ablate.record import export, quiet, server, tracking
from ablate.record.export import Export, sync
from ablate.record.server import Server
from ablate.record.tracking import EPOCHS, ROW, STUDY, TRIAL, Away, in_one
from ablate.store import journal as journals
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.workspace import open_workspace
from tests.support.records_by_hand import (
    arm_runs,
    finish,
    make_journal,
    make_study,
    on_server,
    pause,
    study_runs,
    trial_id,
    trial_runs,
    write,
    write_study,
)

FIRST, SECOND = trial_id("mix", 0), trial_id("mix", 1)
START = 1767323045000  # 2026-01-02T03:04:05Z
ANOTHER_START = 1772600767000  # 2026-03-04T05:06:07Z


def artifact(run: dict[str, Any], name: str) -> bytes:
    return (Path(unquote(urlsplit(run["artifact_uri"]).path)) / name).read_bytes()


def test_a_trial_and_its_study(workspace) -> None:
    write(workspace.store, make_journal(FIRST))
    recorder = workspace.export(make_study())
    recorder.results.begin()
    recorder.open()
    assert recorder.deliver(FIRST)
    assert not recorder.deliver(FIRST)
    result = finish(recorder, "| arm |\n|---|", {"forest.svg": "<svg/>", "t.bin": b"\x00"})
    assert result.complete
    study = study_runs(workspace.uri)["mix@laptop"]
    run = trial_runs(workspace.uri)[FIRST]
    assert study["experiment"] == run["experiment"] == study["name"] == "mix@laptop"
    assert (study["status"], run["status"]) == ("FINISHED", "FINISHED")
    arm = arm_runs(workspace.uri)["mix@laptop/(15,5,0,0)"]
    assert run["tags"]["mlflow.parentRunId"] == arm["id"]
    assert arm["tags"]["mlflow.parentRunId"] == study["id"]
    assert run["name"] == run["tags"]["mlflow.runName"] == "(15,5,0,0) seed 1"
    assert (run["start"], run["end"]) == (START, START + 1500)
    points = [(1, 100.0, START + 500), (2, 50.0, START + 1000), (3, 100 / 3, START + 1500)]
    assert sorted(run["history"]["valid_ppl"]) == points
    assert run["history"]["final_test_ppl"] == [(3, 31.0, START + 1500)]
    assert run["latest"]["valid_ppl"] == 100 / 3
    assert set(run["history"]) == {
        *("train_nll", "valid_ppl", "seconds"),
        *("final_valid_ppl", "final_test_ppl", "num_parameters"),
    }
    assert run["params"] == {
        "backbone": "lstm",
        "backbone.units": "[20, 10]",
        "training.clip": "None",
    }
    expected = {
        "study": "mix",
        "scale": "laptop",
        "arm": "(15,5,0,0)",
        "stage": "train",
        "paper": "takase2018",
        "table": "Table 3",
        "seed": "7",
        "seed_index": "0",
        "corpus_digest": "c0",
        "parents": "start:p1",
        "git_commit": "abc",
        "git_dirty": "True",
        "versions": "torch 2.13.0",
        "computed_by": "torch: ABLATE_NATIVE=off; kernels: g++ 12.2",
        "host": "box",
        "device": "cpu",
        "threads": "1",
        "attempts": "1",
        "status": "completed",
        "ablate.trial": FIRST,
    }
    assert expected.items() <= run["tags"].items()
    config = tomllib.loads(artifact(run, "config.toml").decode())
    assert config == {"backbone": "lstm", "backbone.units": [20, 10]}
    assert artifact(run, "curve.csv").splitlines()[0] == b"epoch,event,seconds,train_nll,valid_ppl"
    assert b"torch" in artifact(run, "environment.json")
    assert artifact(study, "forest.svg") == b"<svg/>"
    assert artifact(study, "t.bin") == b"\x00"
    assert artifact(study, "table.md").startswith(b"| arm |")
    assert study["tags"]["trials"] == "1 completed, 1 left"
    note = study["tags"]["mlflow.note.content"]
    assert all(text in note for text in ("From which layers?", "ablate study", "| arm |"))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("pruned", "KILLED"),
        ("failed", "FAILED"),
        (None, "RUNNING"),
    ],
)
def test_statuses(workspace, status, expected) -> None:
    write(workspace.store, make_journal(FIRST, status=status, reason="it hurt"))
    recorder = workspace.export(make_study())
    recorder.open()
    recorder.deliver(FIRST, running=True)
    run = trial_runs(workspace.uri)[FIRST]
    assert run["status"] == expected
    assert run["tags"]["status"] == (status or "running")
    assert (run["end"] is None) == (status is None)
    assert ("final_test_ppl" in run["history"]) == (status == "completed")
    if status == "failed":
        assert artifact(run, "error.txt") == b"it hurt"
        assert "it hurt" in run["tags"]["mlflow.note.content"]


def test_a_running_trial_grows_pauses_and_goes_on(workspace) -> None:
    """An epoch repeated after a crash takes other seconds, and is recorded once."""
    store, record = workspace.store, make_study()
    recorder = workspace.export(record)
    recorder.open()
    for epochs in (1, 2):
        write(store, make_journal(FIRST, epochs, None))
        recorder.deliver(FIRST, running=True)
    assert trial_runs(workspace.uri)[FIRST]["status"] == "RUNNING"
    assert pause(recorder).complete
    run = trial_runs(workspace.uri)[FIRST]
    assert (run["status"], run["tags"]["status"]) == ("KILLED", "interrupted")
    assert study_runs(workspace.uri)["mix@laptop"]["status"] == "KILLED"
    again = workspace.export(record)
    again.results.begin()
    again.open()
    assert study_runs(workspace.uri)["mix@laptop"]["status"] == "RUNNING"
    write(store, make_journal(FIRST, 2, None, seconds=0.7))
    again.deliver(FIRST, running=True)
    assert trial_runs(workspace.uri)[FIRST]["status"] == "RUNNING"
    write(store, make_journal(FIRST, 3, seconds=0.7))
    finish(again)
    run = trial_runs(workspace.uri)[FIRST]
    assert run["status"] == "FINISHED"
    assert sorted(step for step, *_ in run["history"]["seconds"]) == [1, 2, 3]
    assert sorted(value for _, value, _ in run["history"]["seconds"]) == [0.5, 1.0, 0.7 * 3]


def test_a_trial_that_starts_over_has_no_number_of_an_attempt_that_failed(workspace) -> None:
    """Its code was repaired in between, so that the same epochs have other numbers."""
    store, record = workspace.store, make_study()
    for day, epochs, status, loss in ((1, 2, "failed", 100.0), (2, 3, "completed", 1.0)):
        reason = "a bug" if status == "failed" else None
        journal = make_journal(FIRST, epochs, status, reason=reason)
        journal.note(started=f"2026-01-0{day}T00:00:00Z")
        journal.epochs = [_with_loss(epoch, loss) for epoch in journal.epochs]
        write(store, journal)
        recorder = workspace.export(record)
        recorder.open()
        for running in (True, False):
            recorder.deliver(FIRST, running=running)
        assert finish(recorder).complete
    active = (run for run in on_server(workspace.uri) if run["stage"] == "active")
    (run,) = (run for run in active if "ablate.trial" in run["tags"])
    assert sorted((step, value) for step, value, _ in run["history"]["train_nll"]) == [
        (1, 1.0),
        (2, 1.0),
        (3, 1.0),
    ]
    assert run["tags"]["status"] == "completed" and run["tags"]["arm"] == "(15,5,0,0)"
    assert run["start"] == 1767312000000  # 2026-01-02T00:00:00Z, not that of the attempt before
    assert not run["tags"].get("reason") and not run["tags"].get("mlflow.note.content")


def test_numbers_that_are_none(workspace) -> None:
    journal = make_journal(FIRST, 2, "diverged")
    first, second = journal.epochs
    journal.epochs = [_with_loss(first, float("inf")), _with_loss(second, float("nan"))]
    write(workspace.store, journal)
    recorder = workspace.export(make_study())
    recorder.open()
    recorder.deliver(FIRST)
    points = _run(workspace)["history"]["train_nll"]
    history = {step: value for step, value, _ in points}
    assert history[1] > 1e308
    assert history[2] != history[2]


def _with_loss(epoch: Epoch, train_nll: float) -> Epoch:
    return replace(epoch, metrics={**epoch.metrics, "train_nll": train_nll})


def _run(workspace) -> dict[str, Any]:
    return trial_runs(workspace.uri)[FIRST]


def _comparable(run: dict[str, Any]) -> dict[str, Any]:
    left_out = {"id", "artifact_uri"}
    tags = {key: value for key, value in run["tags"].items() if key != "mlflow.parentRunId"}
    history = {key: sorted(points) for key, points in run["history"].items()}
    plain = {key: value for key, value in run.items() if key not in left_out}
    return {**plain, "tags": tags, "history": history}


class Killed(BaseException):
    """A driver killed between two calls."""


class Countdown:
    """Kill at the n-th call, before it runs."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self, work, *arguments, **named):
        self.left -= 1
        if self.left == 0:
            raise Killed
        return work(*arguments, **named)


class Watched:
    """An object whose methods are counted."""

    def __init__(self, inner: Any, countdown: Countdown) -> None:
        self._inner, self._countdown = inner, countdown

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return lambda *arguments, **named: self._countdown(method, *arguments, **named)


def _watch(export: Export, countdown: Countdown, monkeypatch) -> None:
    writes = server.write_files
    watched = lambda *arguments: countdown(writes, *arguments)  # noqa: E731
    monkeypatch.setattr(server, "write_files", watched)
    export._server.client = Watched(export._server.client, countdown)


def _story(recorder: Export, store: Any) -> None:
    """Deliver a study of two trials; one runs for a while, is paused, and resumes."""
    recorder.results.begin()
    recorder.open()
    recorder.deliver(FIRST)
    recorder.deliver(SECOND, running=True)
    journal = journals.read(store, SECOND)
    assert journal is not None
    pause(recorder)
    write(store, make_journal(SECOND, 4))
    finish(recorder, "| table |", {"a.txt": "a"})


def _prepare(workspace: Any) -> None:
    write(workspace.store, make_journal(FIRST, 2), make_journal(SECOND, 2, None))


def _seen(workspace: Any) -> list[dict[str, Any]]:
    plain = [_comparable(run) for run in on_server(workspace.uri)]
    for run in plain:
        if {"ablate.study_run", "ablate.arm_run"} & run["tags"].keys():
            del run["start"], run["end"]
    return sorted(plain, key=str)


@pytest.mark.slow
def test_killed_at_every_call(workspace, kills, monkeypatch) -> None:
    """Whatever call a driver dies at, the next one leaves what an undisturbed one leaves.

    (Tried at some of the calls, at all of them by `make test-kills`.)
    """
    stride = 13 if kills < 10 else 1
    _prepare(workspace)
    counter = Countdown(10**9)
    recorder = workspace.export(make_study())
    with monkeypatch.context() as patch:
        _watch(recorder, counter, patch)
        _story(recorder, workspace.store)
    calls = 10**9 - counter.left
    expected = _seen(workspace)
    assert calls > 30
    for call in range(1, calls + 1, stride):
        workspace.reset()
        _prepare(workspace)
        recorder = workspace.export(make_study())
        with monkeypatch.context() as patch, pytest.raises(Killed):
            _watch(recorder, Countdown(call), patch)
            _story(recorder, workspace.store)
        gc.collect()  # a process that is killed lets go of its locks, an exception not at once
        _story(workspace.export(make_study()), workspace.store)
        assert _seen(workspace) == expected, call


def test_a_killed_driver_leaves_no_run_running(workspace) -> None:
    """The next process ends its runs, even if the study no longer names their trials."""
    write(workspace.store, make_journal(FIRST, 1, None), make_journal(SECOND, 1, None))
    recorder = workspace.export(make_study())
    recorder.results.begin()
    recorder.open()
    recorder.deliver(FIRST, running=True)
    recorder.deliver(SECOND, running=True)
    write_study(workspace.store, make_study(trials=1))
    sync(workspace.store, workspace.uri, workspace.artifacts)
    assert {run["status"] for run in on_server(workspace.uri)} == {"KILLED"}


def test_a_settled_trial_is_read_once_until_it_changes(workspace, monkeypatch) -> None:
    write(workspace.store, make_journal(FIRST), make_journal(SECOND))
    write_study(workspace.store, make_study())
    sync(workspace.store, workspace.uri, workspace.artifacts)
    recorder = workspace.export(make_study())
    recorder.open()
    reads: list[str] = []
    read = journals.read
    monkeypatch.setattr(export.journals, "read", lambda *key: reads.append(key[1]) or read(*key))
    assert recorder.backlog() == recorder.backlog() == []
    assert reads == [FIRST, SECOND]
    write(workspace.store, _another_run(FIRST))
    recorder.changed(FIRST)
    assert recorder.backlog() == [FIRST]


def _another_run(trial: str, status: str = "completed", **more: Any) -> Journal:
    """The journal of a trial that somebody removed and ran again, with another result."""
    journal = make_journal(trial, 3, status, metrics={"test_ppl": 77.0}, **more)
    journal.note(started="2026-03-04T05:06:07Z")
    return journal


def test_a_trial_that_was_run_again_has_its_new_result(workspace) -> None:
    """As many epochs and attempts as before: only the result and the times tell."""
    write(workspace.store, make_journal(FIRST))
    finish(_opened(workspace, make_study(trials=1)))
    write(workspace.store, _another_run(FIRST))
    assert finish(_opened(workspace, make_study(trials=1))).delivered == 1
    (run,) = (run for run in _active(workspace) if "ablate.trial" in run["tags"])
    assert run["latest"]["final_test_ppl"] == 77.0
    assert len(run["history"]["final_test_ppl"]) == 1
    assert run["start"] == ANOTHER_START
    assert finish(_opened(workspace, make_study(trials=1))).delivered == 0


def _active(workspace: Any) -> list[dict[str, Any]]:
    return [run for run in on_server(workspace.uri) if run["stage"] == "active"]


def test_a_running_study_is_left_to_its_driver(workspace) -> None:
    write(workspace.store, make_journal(FIRST), make_journal(SECOND, 1, None))
    write_study(workspace.store, make_study())
    arguments = (workspace.store, workspace.uri, workspace.artifacts)
    sync(*arguments, running=["mix@laptop"])
    assert set(trial_runs(workspace.uri)) == {FIRST}
    assert study_runs(workspace.uri)["mix@laptop"]["status"] == "RUNNING"


@pytest.mark.parametrize("written", [0, 1, 2])
def test_results_that_a_kill_left_half_written_are_no_damage(
    workspace, monkeypatch, written
) -> None:
    """The files of a study that is run again, killed after some of them were written."""
    write(workspace.store, make_journal(FIRST))
    write_study(workspace.store, make_study(trials=1))
    finish(_opened(workspace, make_study(trials=1)), "", {"a.txt": "1", "b.txt": "1"})
    recorder = _opened(workspace, make_study(trials=1))
    countdown, store_file = Countdown(written + 2), workspace.store._write
    monkeypatch.setattr(workspace.store, "_write", lambda *what: countdown(store_file, *what))
    with pytest.raises(Killed):
        recorder.results.save("", {"a.txt": "2", "b.txt": "2"})
    monkeypatch.undo()
    assert sync(workspace.store, workspace.uri, workspace.artifacts)["mix@laptop"].complete
    study = study_runs(workspace.uri)["mix@laptop"]
    assert study["status"] == "KILLED"  # interrupted
    expected = [b"2" if written > index else b"1" for index in range(2)]
    assert [artifact(study, name) for name in ("a.txt", "b.txt")] == expected


def test_a_study_that_is_damaged_holds_up_no_other(workspace, capsys) -> None:
    for name in ("a", "mix", "z"):
        write(workspace.store, make_journal(trial_id(name, 0)))
        write_study(workspace.store, make_study(name, trials=1))
    workspace.store.write("studies/a@laptop/results/state.json", b"{")
    workspace.store.write("studies/mix@laptop/study.json", b"{")
    with pytest.raises(DamagedError, match=r"a@laptop/results/state\.json"):
        sync_records(open_workspace(str(workspace.folder)))
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("a@laptop: not delivered: ") and "state.json" in first
    assert second.startswith("mix@laptop: not delivered: ") and "study.json" in second
    assert third == "z@laptop: 1 trials delivered now, all recorded"
    assert set(trial_runs(workspace.uri)) == {trial_id("z", 0)}


def test_a_run_or_an_experiment_deleted_in_the_ui(workspace) -> None:
    """A deleted run that is delivered again is restored, once."""
    write(workspace.store, make_journal(FIRST))
    write_study(workspace.store, make_study(trials=1))
    recorder = workspace.export(make_study(trials=1))
    recorder.open()
    finish(recorder)
    api = Server(workspace.uri, workspace.artifacts).client
    api.delete_experiment(api.get_experiment_by_name("mix@laptop").experiment_id)
    again = workspace.export(make_study(trials=1))
    again.open()
    finish(again)
    active = [run for run in on_server(workspace.uri) if run["stage"] == "active"]
    assert len(active) == 3  # of the study, its arm and the trial


def test_two_studies_that_start_at_once_make_one_run_of_a_trial_that_both_have(workspace) -> None:
    """The second has listed the experiments before the first one's is there."""
    write(workspace.store, make_journal(FIRST), make_journal(trial_id("other", 0)))
    other = make_study("other", 1, searched=(FIRST,))
    second = workspace.export(other)
    second.open()
    first = workspace.export(make_study(trials=1))
    first.open()
    finish(first)
    finish(second)
    trials = [run["tags"].get("ablate.trial") for run in on_server(workspace.uri)]
    assert trials.count(FIRST) == 1


def test_a_run_that_was_made_without_an_answer_is_found(workspace, monkeypatch) -> None:
    write(workspace.store, make_journal(FIRST))
    recorder = workspace.export(make_study(trials=1))
    recorder.open()
    make = recorder._server.client.create_run

    def unanswered(*arguments: Any, **named: Any) -> Any:
        make(*arguments, **named)
        raise TimeoutError("timed out")

    monkeypatch.setattr(recorder._server.client, "create_run", unanswered)
    with pytest.raises(Away, match="timed out"):
        recorder.deliver(FIRST)
    monkeypatch.undo()
    finish(recorder)
    assert trial_runs(workspace.uri)[FIRST]["status"] == "FINISHED"


def test_long_values_are_cut_and_whole_in_the_config(workspace) -> None:
    journal = make_journal(FIRST)
    journal.config["corpus.words"] = "w" * 7000
    journal.config["units[0]"] = 3
    write(workspace.store, journal)
    recorder = workspace.export(make_study(trials=1))
    recorder.open()
    finish(recorder, "| row |\n" * 2000)
    run = _run(workspace)
    assert len(run["params"]["corpus.words"]) == 6000
    assert run["params"]["corpus.words"].endswith("(cut; whole in config.toml)")
    assert run["params"]["units.0"] == "3"
    assert b"w" * 7000 in artifact(run, "config.toml")
    note = study_runs(workspace.uri)["mix@laptop"]["tags"]["mlflow.note.content"]
    assert len(note) <= 8000
    assert "table.md" in note


def test_a_database_put_back_from_a_copy_gets_what_it_lacks(workspace) -> None:
    """The server is asked what it has."""
    trials = [trial_id("mix", index) for index in range(4)]
    record = make_study(trials=4)
    write_study(workspace.store, record)
    write(workspace.store, *(make_journal(trial) for trial in trials[:2]))
    pause(_opened(workspace, record))
    write(workspace.store, make_journal(trials[2], 1, None))
    pause(_opened(workspace, record))
    copy = _copied(workspace)
    expected = _whole(workspace, record, trials[2:])
    _put_back(workspace, copy)
    assert set(trial_runs(workspace.uri)) == set(trials[:3])
    assert trial_runs(workspace.uri)[trials[2]]["status"] == "KILLED"
    delivery = sync(workspace.store, workspace.uri, workspace.artifacts)["mix@laptop"]
    assert (delivery.delivered, delivery.complete) == (2, True)
    assert _without_times(trial_runs(workspace.uri)) == expected
    again = sync(workspace.store, workspace.uri, workspace.artifacts)["mix@laptop"]
    assert again.delivered == 0


def _opened(workspace: Any, record: Any) -> Export:
    recorder = workspace.export(record)
    recorder.results.begin()
    recorder.open()
    return recorder


def _whole(workspace: Any, record: Any, trials: list[str]) -> dict[str, Any]:
    """Finish the study; what the server then has."""
    recorder = _opened(workspace, record)
    write(workspace.store, *(make_journal(trial) for trial in trials))
    assert finish(recorder, "| arm |").complete
    return _without_times(trial_runs(workspace.uri))


def _without_times(known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    keys = ("status", "stage", "history", "latest", "params")
    return {trial: {key: run[key] for key in keys} for trial, run in known.items()}


def _copied(workspace: Any) -> bytes:
    gc.collect()
    return (workspace.folder / "mlflow.db").read_bytes()


def _let_go(workspace: Any) -> None:
    """Close MLflow's connections to the database, as the end of a process does."""
    client = quiet.load("mlflow.tracking").MlflowClient(workspace.uri)
    client._tracking_client.store.engine.dispose()


def _put_back(workspace: Any, copy: bytes) -> None:
    """Replace the database, as a user does who restores a backup."""
    _let_go(workspace)
    for name in ("mlflow.db-wal", "mlflow.db-shm"):
        (workspace.folder / name).unlink(missing_ok=True)
    (workspace.folder / "mlflow.db").write_bytes(copy)


def test_a_run_that_somebody_deleted_is_not_made_again(workspace) -> None:
    write_study(workspace.store, make_study())
    write(workspace.store, make_journal(FIRST), make_journal(SECOND))
    finish(_opened(workspace, make_study()))
    client = quiet.load("mlflow.tracking").MlflowClient(workspace.uri)
    client.delete_run(trial_runs(workspace.uri)[FIRST]["id"])
    recorder = _opened(workspace, make_study())
    assert recorder.backlog() == []


def test_a_shared_trial_is_asked_of_the_other_studys_experiment(workspace) -> None:
    """Its run is there, and lacks our tag once an older database is put back."""
    mine = replace(make_study(), name="second")
    write(workspace.store, make_journal(FIRST), make_journal(SECOND))
    finish(_opened(workspace, make_study()))
    recorder = _opened(workspace, mine)
    copy = _copied(workspace)
    finish(recorder)
    assert "ablate.also_in.second.laptop" in trial_runs(workspace.uri)[FIRST]["tags"]
    assert finish(_opened(workspace, mine)).delivered == 0
    _put_back(workspace, copy)
    finish(_opened(workspace, mine))
    assert "ablate.also_in.second.laptop" in trial_runs(workspace.uri)[FIRST]["tags"]


def test_a_trial_s_run_has_its_typed_row_and_its_epochs(workspace) -> None:
    write(workspace.store, make_journal(FIRST))
    finish(_opened(workspace, make_study(trials=1)))
    tags = _run(workspace)["tags"]
    row = json.loads(in_one(ROW, tags))
    assert (row["facts"]["seed"], row["facts"]["in_cell"]) == (7, True)
    assert row["config"]["backbone.units"] == "[20, 10]" and row["results"]["test_ppl"] == 31.0
    assert json.loads(in_one(EPOCHS, tags))["valid_ppl"] == [100.0, 50.0, 100 / 3]
    study = study_runs(workspace.uri)["mix@laptop"]
    whole = json.loads(artifact(study, "study.json"))
    assert json.loads(in_one(STUDY, study["tags"])) == whole and whole["name"] == "mix"


def test_a_row_that_is_too_long_for_a_tag_is_cut_and_joined(workspace) -> None:
    """And none of its parts stays when the trial starts over with fewer epochs."""
    for day, epochs in ((1, 2000), (2, 1)):
        journal = make_journal(FIRST, epochs)
        journal.note(started=f"2026-01-0{day}T00:00:00Z")
        write(workspace.store, journal)
        finish(_opened(workspace, make_study(trials=1)))
        (run,) = (run for run in _active(workspace) if "ablate.trial" in run["tags"])
        assert json.loads(in_one(EPOCHS, run["tags"]))["epoch"] == [*range(1, epochs + 1)]
        assert bool(run["tags"].get(f"{EPOCHS}.2")) == (epochs > 1)


def test_a_guest_leaves_a_trial_s_row_the_labels_of_its_home(workspace) -> None:
    """The second study runs a trial of the first again, which had failed."""
    mine = replace(make_study(trials=1), name="second")
    write(workspace.store, make_journal(FIRST, 1, "failed"))
    finish(_opened(workspace, make_study(trials=1)))
    write(workspace.store, make_journal(FIRST))
    finish(_opened(workspace, mine))
    facts = json.loads(in_one(ROW, _run(workspace)["tags"]))["facts"]
    assert (facts["status"], facts["study"]) == ("completed", "mix")


def test_a_run_of_an_older_version_gets_its_row(workspace, monkeypatch) -> None:
    write(workspace.store, make_journal(FIRST))
    write_study(workspace.store, make_study(trials=1))
    with monkeypatch.context() as patch:
        patch.setattr(tracking, "in_parts", lambda _name, _text: {})
        patch.setattr(export, "ROW", TRIAL)
        finish(_opened(workspace, make_study(trials=1)))
    patched = trial_runs(workspace.uri)[FIRST]
    assert ROW not in patched["tags"]
    assert sync(workspace.store, workspace.uri, workspace.artifacts)["mix@laptop"].delivered == 1
    run = trial_runs(workspace.uri)[FIRST]
    assert ROW in run["tags"] and run["history"] == patched["history"]
