"""How long a silent part of Ray is waited for, and what is said; no Ray is started."""

from __future__ import annotations

import ctypes
import signal
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from ray._private import worker

from ablate.errors import TrialError
from ablate.tune.cluster import actor, watch
from ablate.tune.cluster.watch import PATIENCE_SECONDS, RECONNECT, RayDied, Watch

GCS = "Ray's GCS at 10.0.0.1:6379"


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def silent(monkeypatch) -> Any:
    """What is silent, whether it is ours, and the time: set by a test."""
    state = SimpleNamespace(what=None, ours=False, clock=Clock(), notes=[])
    monkeypatch.setattr(watch, "time", state.clock)
    monkeypatch.setattr(watch, "_silent_part", lambda: (state.what, state.ours))
    monkeypatch.delenv(RECONNECT, raising=False)
    state.watch = Watch(state.notes.append, "Do this.")

    def after(seconds: float) -> RayDied | None:
        state.clock.now += seconds
        return state.watch._given_up()

    state.after = after
    return state


def test_a_part_of_a_cluster_has_a_quarter_of_a_minute(silent):
    assert silent.after(1000.0) is None
    silent.what = GCS
    assert silent.after(0.0) is None and silent.after(14.5) is None
    died = silent.after(0.5)
    assert str(died) == f"{GCS} has not answered for 15 s" and not died.ours
    assert silent.notes == []


def test_a_part_of_our_own_has_two_seconds(silent):
    silent.what, silent.ours = GCS, True
    assert silent.after(0.0) is None and silent.after(1.5) is None
    died = silent.after(0.5)
    assert died is not None and died.ours and "for 2 s" in str(died)


def test_a_gcs_that_may_come_back_is_waited_for_and_that_is_said_once(silent, monkeypatch):
    monkeypatch.setenv(RECONNECT, "100")
    silent.what = GCS
    assert silent.after(0.0) is None and silent.after(14.5) is None and silent.notes == []
    assert [silent.after(seconds) for seconds in (0.5, 30.0, 24.5)] == [None] * 3
    assert silent.notes == [f"{GCS} does not answer; waiting 70 s for it in all"]
    assert str(silent.after(0.5)) == f"{GCS} has not answered for 70 s"


def test_another_part_or_one_that_answered_has_the_whole_time(silent, monkeypatch):
    monkeypatch.setenv(RECONNECT, "100")
    silent.what = GCS
    silent.after(0.0)
    assert silent.after(20.0) is None and len(silent.notes) == 1
    silent.what = None
    assert silent.after(60.0) is None
    silent.what = GCS
    assert silent.after(0.0) is None and silent.after(60.0) is None and len(silent.notes) == 2
    silent.what = "Ray's raylet on this host (a)"
    assert silent.after(0.0) is None and silent.after(14.9) is None
    assert silent.after(0.1) is not None


@pytest.mark.parametrize(("setting", "seconds"), [("10", 15), ("44", 15), ("60", 30)])
def test_only_a_gcs_is_waited_for_longer(monkeypatch, setting, seconds):
    monkeypatch.setenv(RECONNECT, setting)
    assert watch._patience(GCS) == seconds
    assert watch._patience("Ray's raylet on this host (a)") == PATIENCE_SECONDS == 15


@pytest.mark.parametrize("statuses", [(), (None, None), (None, -9), (3, None)])
def test_a_part_that_this_process_started_and_that_ended_is_named(monkeypatch, statuses):
    names, pids = ("gcs_server", "raylet"), (11, 12)
    processes = [
        SimpleNamespace(process=SimpleNamespace(pid=pid, poll=lambda status=status: status))
        for pid, status in zip(pids, statuses, strict=False)
    ]
    infos = {name: [one] for name, one in zip(names, processes, strict=False)}
    monkeypatch.setattr(worker, "_global_node", SimpleNamespace(all_processes=infos))
    died = watch._dead_child()
    said = {
        -9: "Ray's raylet on this machine (pid 12) died by signal 9",
        3: "Ray's gcs_server on this machine (pid 11) died with status 3",
    }
    expected = next((said[status] for status in statuses if status is not None), None)
    assert (died and str(died)) == expected and (died is None or died.ours)
    monkeypatch.setattr(worker, "_global_node", None)
    assert watch._dead_child() is None


@pytest.mark.parametrize(("status", "text"), [(-9, " by signal 9"), (0, " with status 0")])
def test_how_a_process_ended(status, text):
    assert watch._how(status) == text


@pytest.mark.parametrize(
    ("address", "family", "at"),
    [
        ("10.0.0.1:6379", socket.AF_INET, ("10.0.0.1", 6379)),
        ("[fd00::1]:6380", socket.AF_INET6, ("fd00::1", 6380)),
    ],
)
def test_a_gcs_is_asked_at_its_address(monkeypatch, address, family, at):
    asked: list[tuple] = []
    node = SimpleNamespace(all_processes={}, raylet_socket_name="/raylet", gcs_address=address)
    monkeypatch.setattr(worker, "_global_node", node)
    monkeypatch.setattr(watch, "_answers", lambda *how: asked.append(how) or len(asked) == 1)
    assert watch._silent_part() == (f"Ray's GCS at {address}", False)
    assert asked == [(socket.AF_UNIX, "/raylet"), (family, at)]
    monkeypatch.setattr(worker, "_global_node", None)
    assert watch._silent_part() == (None, False) and watch._dead_child() is None


def test_nothing_answers_at_a_closed_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = listening.getsockname()
        listening.listen()
        assert watch._answers(socket.AF_INET, address)
    assert not watch._answers(socket.AF_INET, address)


@pytest.fixture
def ended(monkeypatch) -> list[int]:
    """The statuses with which the process would have been ended."""
    statuses: list[int] = []
    monkeypatch.setattr(watch.os, "_exit", statuses.append)
    monkeypatch.setattr(watch, "STUCK_SECONDS", 0.01)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(watch, "_dead_child", lambda: RayDied("Ray's raylet died", True))
    return statuses


def test_a_driver_that_is_blocked_is_ended_with_the_message(ended, capsys):
    Watch(print, "Resume with: x")._look()
    assert ended == [TrialError.exit_code]
    assert capsys.readouterr().err == "ablate: Ray's raylet died. Resume with: x\n"


def test_a_driver_that_checks_in_time_is_not(ended, monkeypatch):
    monkeypatch.setattr(watch, "STUCK_SECONDS", 30.0)
    looking = Watch(print, "")
    with looking.on():
        (thread,) = (t for t in threading.enumerate() if t.name == "ray-watch")
        assert thread.daemon  # else it would hold the process
        with pytest.raises(RayDied, match="raylet"):
            looking.check()
        assert looking.has_seen_a_death
        thread.join(20)
    assert not thread.is_alive() and ended == []


def test_a_worker_dies_with_its_raylet():
    """The kernel says which signal this process gets when its parent dies."""
    set_parent_death_signal, get_parent_death_signal, found = 1, 2, ctypes.c_int(0)
    kernel = ctypes.CDLL(None)
    actor._die_with_parent()
    kernel.prctl(get_parent_death_signal, ctypes.byref(found))
    kernel.prctl(set_parent_death_signal, 0)
    assert found.value == signal.SIGKILL
