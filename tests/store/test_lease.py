"""One driver holds a study: what another one sees of it, and when it may take over."""

from __future__ import annotations

import os
import socket
import time

import pytest

from ablate.errors import HeldError
from ablate.store import lease
from ablate.store.lease import Lease
from ablate.store.store import Store

KEY = "studies/q@s/lease.json"
NOBODY = 2**22 + 1  # above Linux's largest process id


@pytest.fixture
def store(tmp_path, monkeypatch) -> Store:
    """A store whose leases settle in no time. Nothing else about them is changed."""
    monkeypatch.setattr(lease, "SETTLE_SECONDS", 0.0)
    return Store(str(tmp_path))


def written_by(store: Store, **process) -> dict:
    holder = {"token": "theirs", "host": "elsewhere", "pid": 7, "since": "10:00:00", **process}
    store.write_json(KEY, holder)
    return holder


def test_a_held_lease_names_its_holder_and_is_gone_afterwards(store):
    with Lease(store, "q@s").held():
        stored = store.read_json(KEY)
        assert (stored["host"], stored["pid"]) == (socket.gethostname(), os.getpid())
        assert f"process {os.getpid()} on {socket.gethostname()}" in lease.holder(store, "q@s")
    assert store.read_json(KEY) is None and lease.holder(store, "q@s") is None


@pytest.mark.parametrize(("age", "seen"), [(0, True), (60, True), (60.5, False), (-60.5, False)])
def test_a_lease_is_shown_for_a_minute_after_its_last_beat(store, monkeypatch, age, seen):
    """Whether the clock of its host is ahead or behind."""
    clock = Clock({})
    monkeypatch.setattr(lease, "time", clock)
    written_by(store, at=clock.time() - age)
    shown = lease.holder(store, "q@s")
    assert shown == ("process 7 on elsewhere since 10:00:00" if seen else None)


def test_a_dead_process_of_this_host_is_not_waited_for(store, monkeypatch):
    monkeypatch.setattr(Lease, "_wait_for_silence", None)
    written_by(store, host=socket.gethostname(), pid=NOBODY)
    with Lease(store, "q@s").held():
        assert store.read_json(KEY)["pid"] == os.getpid()


class Clock:
    """A clock that only sleeping moves, and what happens to the store at some of its times."""

    def __init__(self, events) -> None:
        self.now, self.events = 0.0, events

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for at in [at for at in self.events if at <= self.now]:
            self.events.pop(at)()

    def time(self) -> float:
        return 1e9 + self.now

    def strftime(self, form: str) -> str:
        return time.strftime(form)


@pytest.mark.parametrize("pid", [os.getpid(), "?"], ids=["our own", "unknown"])
def test_a_silent_holder_is_waited_for_twenty_seconds(store, monkeypatch, pid):
    """It may live (on this host, too), so that only its silence tells that it is gone."""
    clock = Clock({})
    written_by(store, host=socket.gethostname(), pid=pid)
    monkeypatch.setattr(lease, "time", clock)
    with Lease(store, "q@s").held():
        assert store.read_json(KEY)["token"] != "theirs"
    assert clock.now == lease.STALE_SECONDS == 20


def test_a_holder_that_beats_keeps_its_study(store, monkeypatch):
    """A beat in the last moment counts, and whoever waited leaves the lease as it is."""
    clock = Clock({19.9: lambda: written_by(store, beats=2)})
    written_by(store, beats=1)
    monkeypatch.setattr(lease, "time", clock)
    message = "already being run by process 7 on elsewhere since 10:00:00"
    with pytest.raises(HeldError, match=message), Lease(store, "q@s").held():
        pass
    assert store.read_json(KEY)["beats"] == 2


def test_a_holder_that_gives_back_is_followed_at_once(store, monkeypatch):
    clock = Clock({3.0: lambda: store.delete(KEY)})
    written_by(store)
    monkeypatch.setattr(lease, "time", clock)
    with Lease(store, "q@s").held():
        assert clock.now == 3.0


def test_of_two_that_take_it_at_once_the_last_to_write_has_it(store, monkeypatch):
    clock = Clock({0.0: lambda: written_by(store)})
    monkeypatch.setattr(lease, "time", clock)
    with pytest.raises(HeldError, match="on elsewhere"), Lease(store, "q@s").held():
        pass
    assert store.read_json(KEY)["token"] == "theirs"


def test_a_holder_beats_and_notices_who_took_over(store, monkeypatch):
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.01)
    lost: list[str] = []
    own = Lease(store, "q@s")
    own.on_lost = lost.append
    with own.held():
        first = store.read_json(KEY)["beats"]
        wait_until(lambda: store.read_json(KEY)["beats"] > first)
        # A beat may be about to write when we do: write until ours stays.
        wait_until(lambda: written_by(store) and lost)
    assert lost[0] == "q@s was taken over by process 7 on elsewhere since 10:00:00"
    assert store.read_json(KEY)["token"] == "theirs"


def wait_until(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_the_intervals_leave_room_for_lost_beats():
    """A holder misses three beats in a row before it is taken for dead."""
    assert lease.STALE_SECONDS >= 4 * lease.BEAT_SECONDS
    assert lease.RECENT_SECONDS > lease.STALE_SECONDS
