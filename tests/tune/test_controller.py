"""What the control loop changes of Tune's, each by itself; no Ray is started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from ray.air.execution._internal import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial as TuneTrial

from ablate.tune.cluster import ray_private
from ablate.tune.cluster.ray_private import NO_AGENT, Controller

TRIAL = SimpleNamespace(status=TuneTrial.RUNNING)


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def calls(monkeypatch) -> list[tuple]:
    """The calls that reach Tune, or the drive."""
    made: list[tuple] = []
    for name in (
        *("_maybe_reuse_cached_actor", "_process_trial_failure"),
        *("_actor_failed", "_trial_task_failure"),
    ):
        noted = lambda self, *args, name=name: made.append((name, *args)) or "Tune's answer"  # noqa: E731
        monkeypatch.setattr(TuneController, name, noted)
    return made


def made(calls: list[tuple], **fields: Any) -> Any:
    drive = SimpleNamespace(
        died=lambda *args: calls.append(("died", *args)),
        handled_death=lambda *args: calls.append(("handled", *args)),
    )
    control: Any = Controller.__new__(Controller)
    control.__dict__ |= {"_drive": drive, "_refused": {}, "_resetting_trials": set(), **fields}
    return control


@pytest.mark.parametrize(
    ("error", "passed_on"),
    [
        (RayActorError(error_msg="gone"), "gone"),
        (RayTaskError("train", "a traceback", ValueError("no")), "a traceback"),
        (OutOfMemoryError("no memory"), "no memory"),
    ],
)
def test_an_actor_that_runs_out_of_memory_has_died_as_any_other(monkeypatch, error, passed_on):
    """Tune raises any other error than these two kinds, which would end the study."""
    handled: list[Exception] = []
    monkeypatch.setattr(
        RayActorManager, "_actor_task_failed", lambda self, task, error: handled.append(error)
    )
    ray_private.Actors.__new__(ray_private.Actors)._actor_task_failed("task", error)
    assert isinstance(handled[0], RayActorError | RayTaskError) and passed_on in str(handled[0])
    assert (handled[0] is error) is not isinstance(error, OutOfMemoryError)


def test_actors_are_reused_and_all_of_them_kept(monkeypatch):
    """Starting one takes seconds."""
    options: dict[str, Any] = {}
    kept: list[tuple] = []

    def tune(self: TuneController, **given: Any) -> None:
        options.update(given)
        self._actor_cache = SimpleNamespace(increase_max=lambda *args: kept.append(args))

    monkeypatch.setattr(TuneController, "__init__", tune)
    monkeypatch.setattr(ray_private, "moved", lambda names: [])
    drive: Any = SimpleNamespace(workers=4)
    Controller(drive, "resources", search_alg="feed")  # type: ignore[arg-type]
    assert options == {"reuse_actors": True, "scheduler": drive, "search_alg": "feed"}
    assert kept == [("resources", 4)]


def test_only_a_node_with_agents_is_asked_for_a_runtime_environment(monkeypatch):
    """Tune's actors would wait for it forever on a bare node."""
    monkeypatch.setattr(
        TuneController,
        "__init__",
        lambda self, **_: vars(self).update(_actor_cache=MagicMock(), _class_cache="Tune's"),
    )
    for command, is_bare in ([["raylet", f"--agent=python {NO_AGENT}"], True], [["raylet"], False]):
        processes = {"raylet": [SimpleNamespace(args=command)]}
        monkeypatch.setattr(ray_private, "own_processes", lambda processes=processes: processes)
        control = Controller(SimpleNamespace(workers=1), "resources")  # type: ignore[arg-type]
        assert (control._class_cache != "Tune's") is is_bare


def test_a_trial_waits_half_a_minute_for_its_own_actor(calls, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(ray_private, "time", clock)
    one, other, resetting = "one", "other", "resetting"
    control = made(
        calls, _trial_to_actor={one: "actor", resetting: "x"}, _resetting_trials={resetting}
    )
    assert control._maybe_reuse_cached_actor(one) is False
    assert control._maybe_reuse_cached_actor(other) == "Tune's answer"
    assert control._maybe_reuse_cached_actor(resetting) == "Tune's answer"
    clock.now += 29.9
    assert control._maybe_reuse_cached_actor(one) is False
    clock.now += 0.1
    assert control._maybe_reuse_cached_actor(one) == "Tune's answer"
    assert [name for name, *_ in calls] == ["_maybe_reuse_cached_actor"] * 3


def test_the_schedule_decides_before_tune_does(calls):
    error = RuntimeError("gone")
    made(calls)._process_trial_failure(TRIAL, error)
    assert calls == [
        ("died", TRIAL, error),
        ("_process_trial_failure", TRIAL, error),
        ("handled", TRIAL, error),
    ]


def test_an_actor_that_dies_in_a_reset_is_not_waited_for(calls):
    error = RuntimeError("gone")
    control = made(calls, _actor_to_trial={"actor": "one"}, _resetting_trials={"one", "two"})
    control._actor_failed("actor", error)
    assert control._resetting_trials == {"two"} and calls == [("_actor_failed", "actor", error)]


@pytest.mark.parametrize(
    ("status", "has_actor", "counted"),
    [
        (TuneTrial.PENDING, False, False),
        (TuneTrial.PENDING, True, True),
        (TuneTrial.RUNNING, False, True),
    ],
)
def test_a_death_is_counted_once(calls, status, has_actor, counted):
    class Trial:
        pass

    trial: Any = Trial()
    trial.status = status
    control = made(calls, _trial_to_actor={trial: "actor"} if has_actor else {})
    control._trial_task_failure(trial, RuntimeError("gone"))
    assert [name for name, *_ in calls] == ["_trial_task_failure"] * counted
