"""`run.folder`: a trial's files reach the store and MLflow, and nothing else does."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from ablate.config import tasks
from ablate.config.fields import setting
from ablate.config.identity import make_trial
from ablate.config.metrics import Metric
from ablate.config.resolve import resolve
from ablate.config.tasks import task
from ablate.errors import DamagedError
from ablate.record.runs import trial_run
from ablate.store import trial_files
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from ablate.trial.user import run_folder
from tests.support.studies_by_hand import ByHand


@dataclass(frozen=True, kw_only=True)
class LineConfig:
    epochs: int = setting(2, doc="passes", low=1)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    return Store(str(tmp_path / "store"))


def started(function, store) -> TrialRun:
    task("line", config=LineConfig, metrics=Metric("accuracy", better="higher"))(function)
    values = {"task": "line"}
    trial = make_trial(resolve(values), values=values, seed=1, corpus_digest="", reads_test=True)
    return TrialRun(trial, store, "")


def run_whole(function, store):
    run = started(function, store)
    while not run.advance(seconds=5):
        pass
    return run.journal


RESULT = {"valid_accuracy": 0.5, "test_accuracy": 0.5}
folders = []


def leaves(**files):
    """A task's function that leaves files."""

    def train(run):
        folders.append(run.folder)
        for name, content in files.items():
            path = run.folder / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        return RESULT

    return train


def test_files_reach_the_store_and_the_run_and_the_folder_is_gone(store):
    journal = run_whole(leaves(picture=b"\x00\xff", samples__first=b"text"), store)
    assert journal.status == Status.COMPLETED and not folders[-1].exists()
    files = trial_files.read(store, journal.trial.id)
    assert files == {"picture": b"\x00\xff", "samples/first": b"text"}
    record = ByHand({"base": [4.0]}).record
    run = trial_run(record, "parent", journal, None, False, files)
    assert run.artifacts["files/samples/first"] == b"text" and "config.toml" in run.artifacts


def test_a_trial_without_files_stores_none(store):
    journal = run_whole(lambda run: RESULT, store)
    assert trial_files.read(store, journal.trial.id) == {}
    assert "files.arrow" not in os.listdir(f"{store.folder}/trials/{journal.trial.id}")


def test_links_and_odd_names_are_left_out_with_a_message(store, tmp_path, capsys):
    (tmp_path / "secret").write_text("a key")

    def train(run):
        (run.folder / "good").write_text("x")
        (run.folder / "link").symlink_to(tmp_path / "secret")
        (run.folder / "away").symlink_to(tmp_path)
        (run.folder / ".hidden").write_text("x")
        (run.folder / "two\nlines").write_text("x")
        os.mkfifo(run.folder / "pipe")
        return RESULT

    journal = run_whole(train, store)
    assert trial_files.read(store, journal.trial.id) == {"good": b"x"}
    said = capsys.readouterr().err
    assert all(
        name in said for name in ("'link'", "'away'", "'.hidden'", r"'two\nlines'", "'pipe'")
    )


@pytest.mark.parametrize(("most_files", "most_bytes"), [(1, 1000), (9, 5)])
def test_too_much_is_not_stored_and_the_result_stays(
    store, monkeypatch, capsys, most_files, most_bytes
):
    monkeypatch.setattr(run_folder, "MOST_FILES", most_files)
    monkeypatch.setattr(run_folder, "MOST_BYTES", most_bytes)
    journal = run_whole(leaves(one=b"123", two=b"456"), store)
    assert journal.status == Status.COMPLETED and trial_files.read(store, journal.trial.id) == {}
    assert "2 files of 0.0 MB in all. A trial may leave" in capsys.readouterr().err


def test_a_trial_that_resumes_finds_the_folder_empty_and_stores_the_last_attempts_files(store):
    def train(run):
        state = {"epochs": 0}
        for epoch in run.epochs(state, total=2):
            (run.folder / f"epoch{epoch}").write_text("x")
            state["epochs"] = epoch
            yield {"valid_accuracy": 0.5}
        return {"test_accuracy": 0.5}

    cut = started(train, store)
    cut.advance(seconds=5)
    cut.save()
    journal = run_whole(train, store)
    assert [*trial_files.read(store, journal.trial.id)] == ["epoch2"]


def test_a_failed_trial_stores_none(store):
    def train(run):
        (run.folder / "x").write_text("x")
        raise ValueError("no")

    journal = run_whole(train, store)
    assert journal.status == Status.FAILED and trial_files.read(store, journal.trial.id) == {}


@pytest.mark.parametrize(
    "name", ["../out", "/etc/passwd", "a/../../b", "a//b", "a\\b", "", "x" * 201]
)
def test_names_in_a_store_that_lead_out_of_a_folder_are_damage(store, name):
    trial_files.write(store, "t", {"good": b"", name: b""})
    with pytest.raises(DamagedError, match="not the name of a file in a folder"):
        trial_files.read(store, "t")
