"""What the roles decide, without a Ray: when a trial starts, and how often Ray may die."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune import TuneError
from ray.tune.schedulers import TrialScheduler

from ablate.errors import StoreError, TrialError
from ablate.store.epoch import Epoch
from ablate.tune.cluster import drive as driving
from ablate.tune.cluster import roles, session
from ablate.tune.cluster.roles import Drive
from ablate.tune.cluster.session import Fleet, environment
from ablate.tune.cluster.watch import RayDied


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


class Schedule:
    """Gives out these trials; whether there are more is set from outside."""

    def __init__(self, *names: str) -> None:
        self.waiting = [SimpleNamespace(id=name) for name in names]
        self.stopping, self.exhausted = False, False
        self.elsewhere: dict[str, Any] = {}
        self.calls: list[tuple] = []

    def next(self) -> Any:
        self.calls.append(("next",))
        return self.waiting.pop(0) if self.waiting else None

    def __getattr__(self, name: str) -> Any:
        if name in ("retried", "note", "lost", "progress", "finished", "report", "died"):
            return lambda *args: self.calls.append((name, *args)) or name == "report"
        raise AttributeError(name)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(roles, "time", clock)
    return clock


def started(drive: Drive) -> str | None:
    trial = drive.next()
    if trial is not None:
        drive.live[trial.id] = SimpleNamespace(trial_id=trial.id, status="RUNNING")  # type: ignore
    return trial and trial.id


def test_as_many_run_as_there_are_workers(clock):
    drive = Drive(Schedule("a", "b", "c"), dict, workers=2)  # type: ignore[arg-type]
    assert [started(drive) for _ in range(3)] == ["a", "b", None]
    drive.ended(drive.live["a"])
    assert (started(drive), sorted(drive.live)) == ("c", ["b", "c"])


def test_a_schedule_with_nothing_is_asked_again_after_a_second_or_when_a_trial_ends(clock):
    schedule = Schedule("a")
    drive = Drive(schedule, dict, workers=3)  # type: ignore[arg-type]
    assert (started(drive), started(drive)) == ("a", None)
    schedule.waiting = Schedule("b", "c").waiting
    clock.now += 0.5
    assert started(drive) is None
    clock.now += 0.5
    assert started(drive) == "b"
    assert started(drive) == "c"
    schedule.waiting = []
    drive.ended(drive.live["a"])
    assert started(drive) is None
    schedule.waiting = Schedule("d").waiting
    drive.ended(drive.live["b"])
    assert started(drive) == "d"


def test_it_is_over_when_nothing_runs_and_there_is_nothing_to_start(clock):
    schedule = Schedule("a")
    drive = Drive(schedule, dict, workers=2)  # type: ignore[arg-type]
    assert not drive.over  # nobody has asked yet
    assert (started(drive), started(drive)) == ("a", None)
    assert not drive.over  # what runs may lead to more
    drive.ended(drive.live["a"])
    assert not drive.over
    assert started(drive) is None and drive.over
    schedule.elsewhere = {"b": None}  # another driver runs it, and may leave it to this one
    assert not drive.over


@pytest.mark.parametrize("field", ["stopping", "exhausted"])
def test_it_is_over_when_the_schedule_says_so(clock, field):
    schedule = Schedule("a")
    drive = Drive(schedule, dict)  # type: ignore[arg-type]
    setattr(schedule, field, True)
    assert drive.over and started(drive) is None and schedule.calls == []


def test_after_another_ray_what_ran_resumes_first_and_in_its_order(clock):
    schedule = Schedule("a", "b", "c")
    drive = Drive(schedule, dict, workers=2)  # type: ignore[arg-type]
    assert [started(drive), started(drive)] == ["a", "b"]
    drive.learned, schedule.exhausted = True, True
    drive.put_back("Ray died")
    assert [call for call in schedule.calls if call[0] == "retried"] == [
        ("retried", "a", "Ray died"),
        ("retried", "b", "Ray died"),
    ]
    assert not drive.learned and not drive.live and not drive.over
    assert [started(drive), started(drive)] == ["a", "b"]
    assert drive.over  # the schedule is exhausted, and nothing waits to resume


def result(**slice_: Any) -> dict:
    return {"slice": [{"epoch": None, "done": False, **slice_}]}


def test_what_a_slice_leads_to(clock):
    schedule = Schedule("a")
    drive = Drive(schedule, dict)  # type: ignore[arg-type]
    started(drive)
    trial = drive.live["a"]
    go_on = TrialScheduler.CONTINUE
    assert drive.on_trial_result(None, trial, result()) == go_on and not drive.learned
    assert drive.on_trial_result(None, trial, result(epoch={"epoch": 1})) == go_on
    assert drive.learned and ("report", "a", Epoch(1)) in schedule.calls
    assert drive.on_trial_result(None, trial, result(done=True)) == TrialScheduler.STOP
    assert ("finished", "a") in schedule.calls and not drive.live


def test_a_failure_loses_the_trial_and_a_missing_store_stops_the_run(clock):
    schedule = Schedule("a", "b")
    drive = Drive(schedule, dict, workers=2)  # type: ignore[arg-type]
    started(drive), started(drive)
    failed = drive.on_trial_result(None, drive.live["a"], result(failure="it broke"))
    assert failed == TrialScheduler.STOP and ("lost", "a", "it broke") in schedule.calls
    assert not drive.stopping
    actor = SimpleNamespace(preserve=SimpleNamespace(remote=lambda: "saving"))
    trial: Any = drive.live["b"]
    trial.temporary_state = SimpleNamespace(ray_actor=actor)
    told = drive.on_trial_result(None, trial, result(no_store="/mnt/x is not mounted"))
    assert told == TrialScheduler.NOOP and drive._saves == {"b": "saving"}
    assert drive.stopping and drive.over
    with pytest.raises(StoreError, match="not mounted"):
        drive.raise_failure()


def test_it_halts_when_all_that_runs_is_saved(clock, monkeypatch):
    schedule = Schedule("a", "b")
    drive = Drive(schedule, dict, workers=2)  # type: ignore[arg-type]
    started(drive), started(drive)
    unfinished = ["b"]
    monkeypatch.setattr(
        roles,
        "ray",
        SimpleNamespace(wait=lambda refs, **_: ([], [*unfinished]), get=lambda ref: None),
    )
    assert not drive.halted()
    schedule.stopping = True
    assert not drive.halted()  # nothing is being saved yet
    drive._saves = {"a": "a", "b": "b"}
    assert not drive.halted()  # one is not written yet
    unfinished.clear()
    assert drive.halted() and drive.failure is None
    monkeypatch.setattr(roles.ray, "get", lambda ref: "No space left" if ref == "b" else None)
    assert drive.halted()
    with pytest.raises(TrialError, match="trial b could not be saved: No space left"):
        drive.raise_failure()


def test_with_nothing_running_it_halts_at_once(clock, monkeypatch):
    """`ray.wait` refuses an empty list."""
    monkeypatch.setattr(roles, "ray", SimpleNamespace())
    schedule = Schedule()
    schedule.stopping = True
    assert Drive(schedule, dict).halted()  # type: ignore[arg-type]


@pytest.fixture
def deaths(monkeypatch):
    """Ray dies so often, each time after an epoch or not; then the run ends well."""

    def dying(*learned: bool, ours: bool = True, initialized: bool = False) -> Schedule:
        left, schedule = list(learned), Schedule()

        def once(drive: Drive, fleet: Fleet) -> None:
            if left:
                drive.learned = left.pop(0)
                raise RayDied("Ray's raylet died", ours)

        monkeypatch.setattr(driving, "_run_once", once)
        monkeypatch.setattr(driving.ray, "is_initialized", lambda: initialized)
        driving.run(schedule, Fleet(advice="Run it again."), dict)  # type: ignore[arg-type]
        return schedule

    return dying


def test_a_ray_that_dies_is_started_again(deaths):
    schedule = deaths(False, False, False)
    assert [name for name, *_ in schedule.calls] == ["note"] * 3


def test_a_ray_that_dies_four_times_before_any_epoch_ends_is_given_up(deaths):
    with pytest.raises(TrialError, match=r"raylet died\. Run it again\."):
        deaths(False, False, False, False)


def test_deaths_after_an_epoch_start_the_count_again(deaths):
    """The death that follows an epoch is the first of its row."""
    deaths(False, False, False, True, False, False)
    with pytest.raises(TrialError):
        deaths(False, False, False, True, False, False, False)


@pytest.mark.parametrize("whose", [{"ours": False}, {"initialized": True}])
def test_a_ray_of_somebody_else_s_is_not_started_again(deaths, whose):
    with pytest.raises(TrialError, match="raylet died"):
        deaths(False, **whose)


def test_a_ray_that_dies_while_the_study_stops_is_no_failure(monkeypatch):
    schedule = Schedule()
    schedule.stopping = True

    def once(drive: Drive, fleet: Fleet) -> None:
        raise RayDied("Ray's raylet died", True)

    monkeypatch.setattr(driving, "_run_once", once)
    driving.run(schedule, Fleet(), dict)  # type: ignore[arg-type]


class Broken:
    """A controller whose step fails as Tune does, or that stops by itself."""

    def __init__(self, error: Exception | None) -> None:
        self.error, self.cleaned = error, False

    def is_finished(self) -> bool:
        return self.error is None

    def step(self) -> None:
        raise self.error or AssertionError

    def cleanup(self) -> None:
        self.cleaned = True


@pytest.fixture
def controlled(monkeypatch):
    def control(drive: Drive, error: Exception | None, dead: bool = False) -> Broken:
        controller = Broken(error)
        watch = SimpleNamespace(check=lambda: None, has_seen_a_death=dead)
        monkeypatch.setattr(driving, "_controller", lambda *_: controller)
        try:
            driving._control(drive, Fleet(), "/x", watch)  # type: ignore[arg-type]
        finally:
            assert controller.cleaned is not dead
        return controller

    return control


def test_what_tune_gives_up_for_is_the_first_error_of_ours_if_there_is_one(controlled):
    drive = Drive(Schedule(), dict)  # type: ignore[arg-type]
    with pytest.raises(TrialError, match="Ray Tune gave up: no room"):
        controlled(drive, TuneError("no room"))
    drive.failure = StoreError("the disk is full")
    with pytest.raises(StoreError, match="the disk is full"):
        controlled(drive, TuneError("no room"))
    with pytest.raises(StoreError, match="the disk is full"):
        controlled(drive, None)


def test_a_dead_ray_is_not_asked_to_clean_up(controlled):
    controlled(Drive(Schedule(), dict), None, dead=True)  # type: ignore[arg-type]


def test_tunes_files_lie_where_the_fleet_says(monkeypatch, tmp_path):
    folders: list[Path] = []
    monkeypatch.setattr(driving, "connected", lambda fleet: contextlib.nullcontext())
    watch = SimpleNamespace(check=None, on=contextlib.nullcontext, close=lambda: None)
    monkeypatch.setattr(driving, "Watch", lambda *_: watch)
    monkeypatch.setattr(driving, "_control", lambda *given: folders.append(Path(given[2])))
    for tmp in (str(tmp_path), None):
        drive = Drive(Schedule(), dict)  # type: ignore[arg-type]
        driving._run_once(drive, Fleet(workers=4, tmp=tmp))
        assert drive.workers == 4
    assert [at.parent for at in folders] == [tmp_path, Path(tempfile.gettempdir())]


def test_variables_are_as_before_after_the_block(monkeypatch):
    monkeypatch.setenv("ABLATE_A", "before")
    monkeypatch.delenv("ABLATE_B", raising=False)
    with environment({"ABLATE_A": "inside", "ABLATE_B": "inside"}):
        assert os.environ["ABLATE_A"] == os.environ["ABLATE_B"] == "inside"
    assert os.environ["ABLATE_A"] == "before" and "ABLATE_B" not in os.environ


@pytest.mark.parametrize(
    ("given", "variable", "joined"),
    [
        ("a:1", "b:2", "a:1"),
        (None, "b:2", "b:2"),
        ("local", "b:2", None),
        (None, "local", None),
        (None, None, None),
    ],
)
def test_whose_ray_is_joined(monkeypatch, given, variable, joined):
    seen: list[str | None] = []
    monkeypatch.setattr(session, "_start", lambda fleet, stack: seen.append(None))
    monkeypatch.setattr(session, "_connect", lambda fleet, address: seen.append(address))
    monkeypatch.setattr(session.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(session.ray, "shutdown", lambda: None)
    settings = {} if variable is None else {"RAY_ADDRESS": variable}
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with environment(settings), session.connected(Fleet(address=given)):
        pass
    assert seen == [joined]


def test_a_drive_runs_one_trial_unless_it_is_told_how_many(clock):
    drive = Drive(Schedule("a", "b"), dict)  # type: ignore[arg-type]
    assert [started(drive), started(drive)] == ["a", None]


@pytest.mark.parametrize("preempted", [True, False, None])
def test_a_death_with_its_host_counts_nothing(clock, preempted):
    """The schedule decides about any other: here it always gives up."""
    schedule = Schedule("a")
    drive = Drive(schedule, dict)  # type: ignore[arg-type]
    started(drive)
    trial: Any = drive.live["a"]
    error: Any = RuntimeError("gone")
    if preempted is not None:  # Ray does not say it of every error
        error.preempted = preempted
    drive.died(trial, error)
    assert trial.max_failures == (roles.FOR_EVER if preempted else 0)
    assert [call[:2] for call in schedule.calls if call[0] == "died"] == [("died", "a")] * (
        not preempted
    )


@pytest.mark.parametrize(
    ("status", "called", "lives"),
    [("PENDING", "retried", True), ("ERROR", "lost", False), ("TERMINATED", None, True)],
)
def test_what_tune_did_after_a_death_is_passed_on(clock, status, called, lives):
    schedule = Schedule("a")
    drive = Drive(schedule, dict)  # type: ignore[arg-type]
    started(drive)
    trial: Any = drive.live["a"]
    trial.status = status
    drive.handled_death(trial, RuntimeError("gone"))
    assert schedule.calls[1:] == ([(called, "a", roles.cause(RuntimeError("gone")))] * bool(called))
    assert ("a" in drive.live) is lives


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "It died.\n  pid: 12\n  ip: 10.0.0.1\nThe end. Some common causes: x",
            "(pid 12 on 10.0.0.1) died: The end.",
        ),
        ("  pid: 12\nThe end", "the worker process died: The end"),
        ("  ip: 10.0.0.1\nThe end", "the worker process died: The end"),
        (
            "set RAY_memory_usage_threshold\nx",
            "died: Ray killed it because its machine ran out of memory",
        ),
        (
            "a\nconnection error code 2",
            "died: it was killed, from outside or for lack of memory, or it crashed",
        ),
    ],
)
def test_why_a_worker_died_is_one_line(text, said):
    assert roles.cause(RuntimeError(text)).endswith(said)


def test_the_folder_for_ray_is_made_if_it_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(driving, "_run_once", lambda drive, fleet: None)
    monkeypatch.setattr(driving.ray, "is_initialized", lambda: False)
    for _ in range(2):
        driving.run(Schedule(), Fleet(tmp=str(tmp_path / "a" / "b")), dict)  # type: ignore[arg-type]
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("verbose", [True, False])
def test_tune_prints_every_error_only_if_asked(verbose):
    assert driving._tune_settings(Fleet(verbose=verbose), 3) == {
        "TUNE_MAX_PENDING_TRIALS_PG": "3",
        "TUNE_PRINT_ALL_TRIAL_ERRORS": str(int(verbose)),
    }
