"""Ray's own processes die: noticed at once, started again if they are ours, else reported."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from ray._private import services, worker

from ablate.errors import TrialError
from ablate.tune.cluster import drive as cluster
from ablate.tune.cluster import session, watch
from tests.support import lab, places
from tests.tune.test_cluster import WORKER, Plan, run, trials

pytestmark = pytest.mark.cluster


class Killing(Plan):
    """A plan that kills a part of Ray at some numbers of epochs."""

    def __init__(self, *trials: dict[str, Any], kill: dict[int, str]) -> None:
        super().__init__(*trials)
        self.listening: list[str] = []
        self.kill, self.on_progress = kill, self._kill

    def _kill(self, trial_id: str) -> None:
        name = self.kill.pop(len(self.epochs), None)
        if name is not None:
            processes = worker._global_node.all_processes
            pids = [info.process.pid for infos in processes.values() for info in infos]
            self.listening += _addresses({*pids, *lab.descendants(os.getpid())})
            os.kill(processes[name][0].process.pid, signal.SIGKILL)


def _addresses(pids: set[int]) -> list[str]:
    """The addresses on which processes listen, as /proc/net/tcp has them."""
    sockets = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            sockets.add(os.readlink(handle))
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    listening = 10
    return [
        row[1].split(":")[0]
        for row in rows
        if int(row[3], 16) == listening and f"socket:[{row[9]}]" in sockets
    ]


def test_a_part_of_ray_dies_and_ray_is_started_again(tmp_path, monkeypatch) -> None:
    """Every trial resumes, no death is counted; all of it listened on loopback only."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "modules" / "fake_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"), prepend=os.pathsep)
    monkeypatch.setenv("RAY_worker_niceness", "0")
    plan = Killing(*trials(3, epochs=3, sleep=0.2), kill={4: "gcs_server", 7: "raylet"})
    lines = run(plan, cluster.Fleet(workers=1, tmp=str(tmp_path / "tmp")), tmp_path / "store")
    assert not worker.global_worker.connected
    assert sorted(plan.done) == ["t0", "t1", "t2"]
    assert not plan.deaths and not plan.losses
    assert len(plan.retries) == 2 and all("died by signal 9" in why for _, why in plan.retries)
    assert [re.search("gcs_server|raylet", note)[0] for note in plan.notes] == [
        "gcs_server",
        "raylet",
    ]
    for text in lines.values():
        epochs = [line for line in text if "epoch" in line]  # perhaps one that was not reported
        assert epochs[:3] == ["epoch 1", "epoch 2", "epoch 3"]
    assert list((tmp_path / "tmp").iterdir()) == []
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert plan.listening and set(plan.listening) <= loopback


@pytest.mark.parametrize(
    "why", ["Timed out waiting for file gcs_server_port", "The current node timed out"]
)
def test_a_ray_that_is_not_ready_in_time_is_started_again_and_at_last_given_up(
    monkeypatch, why
) -> None:
    """Its processes are killed, as Ray itself forgets them."""
    processes = []

    def starts_too_slowly(**options: Any) -> None:
        processes.append(services.ConsolePopen(["sleep", "600"]))
        raise RuntimeError(why)

    monkeypatch.setattr(session.ray, "init", starts_too_slowly)
    plan = Plan(*trials(1))
    said = r"^Ray was not ready after \d+ s \(is this machine overloaded\?\)\. resume with: x$"
    with pytest.raises(TrialError, match=said):
        cluster.run(plan, cluster.Fleet(advice="resume with: x"), lambda trial: {})
    assert len(processes) == cluster.MOST_DEATHS + 1 == len(plan.notes) + 1
    assert plan.notes[0].endswith("(is this machine overloaded?): starting Ray again")
    assert {process.returncode for process in processes} == {-signal.SIGKILL}


STUCK = """
import threading, types
from ray._private import services, worker
from ablate.tune.cluster import session, watch

watch.LOOK_SECONDS = watch.STUCK_SECONDS = 0.05
process = types.SimpleNamespace(pid=7, poll=lambda: -9)
infos = [types.SimpleNamespace(process=process)]
worker._global_node = types.SimpleNamespace(all_processes={"gcs_server": infos})
with watch.Watch(print, "Resume with: x").on():
    threading.Event().wait()  # as a call of Ray's that never returns
"""


def test_a_driver_that_ray_blocks_is_ended_with_the_same_message() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK], cwd=places.ROOT, capture_output=True, text=True, timeout=120
    )
    said = "ablate: Ray's gcs_server on this machine (pid 7) died by signal 9. Resume with: x\n"
    assert (done.returncode, done.stderr) == (TrialError.exit_code, said)


def test_a_watch_that_is_closed_ends_nothing(monkeypatch) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(os, "_exit", lambda status: pytest.fail("ended"))
    before = threading.active_count()
    with watch.Watch(print, "").on():
        pass
    lab.wait_for(lambda: threading.active_count() == before, "the thread ends", 20)
