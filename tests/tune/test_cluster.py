"""The schedule over a real local Ray: one Ray for the whole file, a worker that trains nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from ablate.errors import StoreError, TrialError  # noqa: E402
from ablate.tune import cluster  # noqa: E402

WORKER = """
import os, signal, time
from pathlib import Path


class Worker:
    def begin(self, order):
        self.order = order
        self.log = Path(order["store"]) / order["trial"]["id"]
        self.note(f"begin {os.getpid()}")

    def advance(self):
        does = self.order["trial"]
        time.sleep(does.get("sleep", 0))
        num = sum(line.startswith("epoch") for line in self.lines()) + 1
        if does.get("raises"):
            raise ZeroDivisionError("a bug of ours")
        if does.get("dies_at") == num and self.begins() <= does.get("deaths", 1):
            os.kill(os.getpid(), signal.SIGKILL)
        self.note(f"epoch {num}")
        epoch = {"epoch": num, "pid": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"]}
        return {"done": num >= does.get("epochs", 1), "epoch": epoch}

    def save(self):
        self.note("save")

    def begins(self):
        return sum(line.startswith("begin") for line in self.lines())

    def lines(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def note(self, text):
        with open(self.log, "a") as file:
            file.write(text + "\\n")
"""


class Plan:
    """A schedule that hands out a list of trials and writes down what it is told."""

    def __init__(self, *trials: dict[str, Any], prune: tuple[str, int] | None = None) -> None:
        self.waiting = {trial["id"]: trial for trial in trials}
        self.running: dict[str, dict[str, Any]] = {}
        self.done: list[str] = []
        self.pruned: list[str] = []
        self.losses: dict[str, str] = {}
        self.retries: list[tuple[str, str]] = []
        self.epochs: list[tuple[str, dict[str, Any]]] = []
        self.most_at_once = 0
        self.stopping = False
        self.prune = prune
        self.on_progress: Any = lambda trial_id: None

    @property
    def exhausted(self) -> bool:
        return self.stopping or (not self.waiting and not self.running)

    def next(self) -> Any:
        for trial in list(self.waiting.values()):
            if set(trial.get("after", ())) <= set(self.done):
                del self.waiting[trial["id"]]
                self.running[trial["id"]] = trial
                self.most_at_once = max(self.most_at_once, len(self.running))
                return SimpleNamespace(id=trial["id"], to_plain=lambda trial=trial: trial)
        return None

    def progress(self, trial_id: str, epoch: dict[str, Any] | None) -> None:
        self.on_progress(trial_id)
        if epoch is not None:
            self.epochs.append((trial_id, epoch))

    def report(self, trial_id: str, epoch: dict[str, Any]) -> bool:
        if self.prune != (trial_id, epoch["epoch"]):
            return True
        self.pruned.append(trial_id)
        del self.running[trial_id]
        return False

    def finished(self, trial_id: str) -> None:
        self.done.append(trial_id)
        del self.running[trial_id]

    def lost(self, trial_id: str, why: str) -> None:
        self.losses[trial_id] = why
        del self.running[trial_id]

    def retried(self, trial_id: str, why: str) -> None:
        self.retries.append((trial_id, why))


def trials(num: int, **does: Any) -> list[dict[str, Any]]:
    return [{"id": f"t{index}", **does} for index in range(num)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory):
    """Two warm places in one Ray."""
    modules = tmp_path_factory.mktemp("modules")
    (modules / "fake_worker.py").write_text(WORKER)
    tmp = tmp_path_factory.mktemp("tmp")
    fleet = cluster.Fleet(workers=2, tmp=str(tmp), env_vars={"PYTHONPATH": str(modules)})
    with cluster.connected(fleet):
        yield fleet
    assert list(tmp.iterdir()) == []


@pytest.fixture
def run(fleet: cluster.Fleet, tmp_path: Path):
    """Run a schedule; the lines that the workers left, by trial."""

    def order(trial: Any) -> dict[str, Any]:
        worker = "fake_worker:Worker"
        return {"trial": trial.to_plain(), "store": str(tmp_path), "data": "", "worker": worker}

    def run(schedule: Any) -> dict[str, list[str]]:
        cluster.run(schedule, fleet, order)
        return {path.name: path.read_text().splitlines() for path in tmp_path.iterdir()}

    return run


def test_all_trials_run_once_in_two_warm_actors(run) -> None:
    plan = Plan(*trials(30, epochs=2))
    lines = run(plan)
    assert Counter(plan.done) == Counter(f"t{index}" for index in range(30))
    assert all(
        [line.split()[0] for line in lines[name]] == ["begin", "epoch", "epoch"]
        for name in plan.done
    )
    assert plan.most_at_once == 2
    assert len({epoch["pid"] for _, epoch in plan.epochs}) == 2
    assert {epoch["threads"] for _, epoch in plan.epochs} == {"1"}


def test_a_trial_waits_for_those_it_builds_on_and_actors_stay(run) -> None:
    first, last = trials(2), [{"id": f"u{i}", "after": ["t0", "t1"]} for i in range(2)]
    plan = Plan(*last, *first)
    run(plan)
    assert sorted(plan.done[:2]) == ["t0", "t1"]
    assert sorted(plan.done[2:]) == ["u0", "u1"]
    assert len({epoch["pid"] for _, epoch in plan.epochs}) <= 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_quiet_driver_with_all_saved(signum: int, tmp_path: Path) -> None:
    pass


def test_a_schedule_with_nothing_to_give_ends(run) -> None:
    plan = Plan({"id": "t0"}, {"id": "t1", "after": ["never"]})
    run(plan)
    assert plan.done == ["t0"]


def test_a_pruned_trial_stops(run) -> None:
    plan = Plan(*trials(3, epochs=5), prune=("t1", 2))
    lines = run(plan)
    assert plan.pruned == ["t1"]
    assert sorted(plan.done) == ["t0", "t2"]
    assert lines["t1"][1:] == ["epoch 1", "epoch 2"]


def test_a_killed_worker_is_replaced_and_goes_on(run) -> None:
    plan = Plan({"id": "bad", "epochs": 3, "dies_at": 2}, *trials(3))
    lines = run(plan)
    assert sorted(plan.done) == ["bad", "t0", "t1", "t2"]
    assert [line.split()[0] for line in lines["bad"]] == [
        "begin", "epoch", "begin", "epoch", "epoch"
    ]  # fmt: skip
    assert [trial_id for trial_id, _ in plan.retries] == ["bad"]
    assert "died" in plan.retries[0][1]


def test_retries_are_used_up(run) -> None:
    plan = Plan({"id": "bad", "dies_at": 1, "deaths": 99}, *trials(3))
    lines = run(plan)
    assert sorted(plan.done) == ["t0", "t1", "t2"]
    assert len(lines["bad"]) == 4
    assert "died" in plan.losses["bad"]


def test_an_error_of_ours_loses_the_trial_with_its_text(run) -> None:
    plan = Plan({"id": "bad", "raises": True}, *trials(3))
    run(plan)
    assert sorted(plan.done) == ["t0", "t1", "t2"]
    assert "ZeroDivisionError: a bug of ours" in plan.losses["bad"]
    assert not plan.retries


def test_stopping_saves_what_runs(run) -> None:
    plan = Plan(*trials(9, epochs=1000, sleep=0.05))
    plan.on_progress = lambda trial_id: setattr(plan, "stopping", len(plan.epochs) > 20)
    start = time.monotonic()
    lines = run(plan)
    assert time.monotonic() - start < 20
    assert len(lines) == 2
    assert all(text[-1] == "save" and text.count("save") == 1 for text in lines.values())
    assert not plan.done and not plan.losses and not plan.retries


def test_an_error_of_the_schedule_comes_out_as_it_is(run) -> None:
    plan = Plan(*trials(4, epochs=50, sleep=0.01))

    def fails(trial_id: str) -> None:
        if len(plan.epochs) > 5:
            raise StoreError("the disk is full")

    plan.on_progress = fails
    with pytest.raises(StoreError, match="the disk is full"):
        run(plan)
