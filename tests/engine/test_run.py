"""What a run of a study leaves behind if it ends with an error."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

import ablate
from ablate.engine import run as engine_run
from ablate.engine.cores import room_for
from ablate.engine.run import RunOptions, missing_records, run_study
from ablate.errors import HeldError, Interrupted, StoreError, TrialError
from ablate.record.export import Delivery
from ablate.store import journal as journals
from ablate.study.designs import table
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search
from ablate.tune import local
from ablate.tune.search.log import LoggedStorage
from tests.support.claiming import is_free
from tests.support.records_by_hand import study_runs
from tests.support.small_studies import BASE, RATE_AND_WINDOW

pytestmark = pytest.mark.usefixtures("without_pages")


def study() -> Study:
    return Study(
        name="asked",
        question="?",
        base=BASE,
        base_arm="a",
        design=table(Arm("a")),
        scales={"s": Scale(seeds=1)},
        runner="stand_in",
    )


def run(workspace) -> None:
    run_study(study(), "s", workspace, RunOptions(local=True, quiet=True))


def recorders() -> list[threading.Thread]:
    """The recorders that nobody has told to end.

    A run waits ten seconds for a server that is silent, as a database is on a busy machine. The
    thread of a recorder that was told to end may therefore end after its run.
    """
    found = [thread for thread in threading.enumerate() if thread.name == "ablate-records"]
    for thread in found:
        thread.join(60)
    return [thread for thread in found if thread.is_alive()]


def test_a_schedule_that_cannot_be_built_leaves_no_thread(workspace) -> None:
    run(workspace)
    (journal,) = workspace.store.folder.glob("trials/*/journal.json")
    journal.write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        run(workspace)
    assert recorders() == []


def test_an_error_while_trials_run_leaves_no_run_marked_as_running(workspace, monkeypatch) -> None:
    """As when Ray is given up."""

    def gives_up(schedule, order) -> None:
        raise TrialError("Ray is gone")

    monkeypatch.setattr(local, "run", gives_up)
    with pytest.raises(TrialError, match="Ray is gone"):
        run(workspace)
    assert recorders() == []
    assert study_runs(workspace.tracking_uri)["asked@s"]["tags"]["status"] == "interrupted"


@pytest.mark.parametrize("error", [StoreError("the disk is full"), KeyboardInterrupt()])
def test_a_run_that_ends_leaves_its_trials_to_other_processes(workspace, monkeypatch, error):
    """Though its process lives on, and keeps the error with all that it refers to."""
    started = []

    def ends(schedule, order) -> None:
        started.append(schedule.next())
        raise error

    monkeypatch.setattr(local, "run", ends)
    with pytest.raises(type(error)) as kept:
        run(workspace)
    assert is_free(workspace.store, started[0].id) and kept.value is error


def test_a_trial_that_is_lacking_for_two_reasons_is_counted_once() -> None:
    delivery = Delivery(undelivered=["a", "b"], refused={"a": "not now"}, reason="it is away")
    assert missing_records(delivery) == "2 trials (it is away)"


def test_by_default_trials_fit_the_cores_that_this_process_may_use(monkeypatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5}, raising=False)
    assert (room_for(1), room_for(4)) == (1, 1)


def test_a_disk_that_is_full_at_the_lock_is_named_with_a_remedy(workspace, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ablate.store.workspace.os.write", full)
    with pytest.raises(StoreError, match=r"driver\.json: No space left on device\. Free some"):
        run(workspace)


HOLDER = """
import sys, time
from ablate.store.workspace import held, open_workspace

with held(open_workspace(sys.argv[1]), "asked@s"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_study_whose_driver_is_stopped_as_told_runs(workspace) -> None:
    """The message says which process to stop, and that the same command then runs."""
    words = [sys.executable, "-c", HOLDER, str(workspace.folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == b"held\n"
            with pytest.raises(HeldError, match="stop it and run the same command") as raised:
                run(workspace)
            pid = re.search(r"process (\d+) on", str(raised.value))
            assert pid is not None and int(pid[1]) == other.pid
        finally:
            other.terminate()
    run(workspace)


LOG_HOLDER = """
import sys, time
from ablate.store.workspace import log_held, open_workspace

with log_held(open_workspace(sys.argv[1]), "asked@s"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_log_of_a_search_has_one_driver_whatever_their_stores(workspace, tmp_path) -> None:
    """A killed driver's lock is released, and whoever only reads needs none."""
    space = tmp_path / "rates.toml"
    space.write_text(RATE_AND_WINDOW)
    searched = {"s": Scale(seeds=1, search=Search(space=str(space), trials=2))}
    asked, options = replace(study(), scales=searched), RunOptions(local=True, quiet=True)
    log = workspace.search_log("asked@s")
    words = [sys.executable, "-c", LOG_HOLDER, str(workspace.folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == b"held\n"
            said = rf"{re.escape(str(log))} are already .* process {other.pid} .* --workspace"
            with pytest.raises(HeldError, match=said):
                run_study(asked, "s", workspace, options)
            run(workspace)  # without a search
            LoggedStorage(log)
        finally:
            other.kill()
    for store in (None, str(tmp_path / "another")):
        elsewhere = replace(workspace, store_uri=store)
        assert run_study(asked, "s", elsewhere, options).interrupted is None
    database = replace(workspace, searches_url="sqlite:///x")
    assert database.search_log("asked@s") is None


def test_a_call_that_a_signal_stopped_returns_no_table_of_a_part(workspace, monkeypatch) -> None:
    """A script would take it for the whole, and go on."""

    def stops(schedule, order) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(local, "run", stops)
    # A shell without job control starts what runs in the background without SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(Interrupted, match=r"asked@s: stopped by SIGINT.*the same call resumes it"):
        ablate.run(study(), "s", workspace=str(workspace.folder), local=True)
    signal.signal(signal.SIGINT, before)
    monkeypatch.undo()
    assert ablate.run(study(), "s", workspace=str(workspace.folder), local=True).arms


@pytest.mark.parametrize("later", [False, True])
def test_only_an_outcome_that_an_older_journal_overwrote_is_restored(workspace, later) -> None:
    """Another driver that runs the trial again has removed it too: it stays in this table."""
    run(workspace)
    (trial_id,) = journals.read_all(workspace.store)
    ended = journals.read(workspace.store, trial_id)
    assert ended is not None and len(ended.attempts) == 1
    attempts = [*ended.attempts, replace(ended.attempts[0], started="2100-01-01T00:00:00Z")]
    stored = replace(ended, outcome=None, attempts=attempts if later else ended.attempts)
    stored.write(workspace.store)
    record = SimpleNamespace(trial_ids=lambda: [trial_id])
    schedule = SimpleNamespace(
        plan=SimpleNamespace(record=record),
        ended={trial_id: ended},
        trials={trial_id: ended.trial},
    )
    told = engine_run._journals(schedule, workspace.store)
    assert told[trial_id].outcome == ended.outcome
    now = journals.read(workspace.store, trial_id)
    assert now is not None and (now.outcome is None) == later
