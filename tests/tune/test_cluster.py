"""The schedule over a real local Ray: one Ray for the whole file, a worker that trains nothing."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")


from ablate.errors import StoreError
from ablate.store.epoch import Epoch
from ablate.tune.cluster import drive as cluster
from ablate.tune.cluster.ray_private import NO_AGENT, own_processes
from tests.support.lab import children

pytestmark = pytest.mark.cluster
RETRIES = 2
WORKER = """
import os, signal, time
from pathlib import Path


class Worker:
    def __init__(self, order):
        self.does = order["trial"]
        self.log = Path(order["store"]) / self.does["id"]
        self.note(f"begin {os.getpid()}")

    def advance(self):
        does = self.does
        time.sleep(does.get("sleep", 0))
        num = sum(line.startswith("epoch") for line in self.lines()) + 1
        if does.get("raises"):
            raise ZeroDivisionError("our own bug")
        if does.get("dies_at") == num and self.begins() <= does.get("deaths", 1):
            try:
                os.kill(os.getpid(), does.get("signal", signal.SIGKILL))
                time.sleep(5)
            except SystemExit:
                self.note("raised")
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
    """A schedule with a list of trials, which records every event."""

    def __init__(self, *trials: dict[str, Any], prune: tuple[str, int] | None = None) -> None:
        self.waiting = {trial["id"]: trial for trial in trials}
        self.running: dict[str, dict[str, Any]] = {}
        self.done: list[str] = []
        self.pruned: list[str] = []
        self.losses: dict[str, str] = {}
        self.retries: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.deaths: Counter[str] = Counter()
        self.epochs: list[tuple[str, Epoch]] = []
        self.most_at_once = 0
        self.stopping = False
        self.elsewhere: dict[str, Any] = {}
        self.prune = prune
        self.on_progress: Any = lambda trial_id: None
        self.below: dict[int, str] = {}  # processes that Ray had while trials ran

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

    def progress(self, trial_id: str, epoch: Epoch | None, reached: Any) -> None:
        self.on_progress(trial_id)
        if epoch is not None:
            self.epochs.append((trial_id, epoch))

    def report(self, trial_id: str, epoch: Epoch) -> bool:
        if self.prune != (trial_id, epoch.number):
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

    def died(self, trial_id: str, why: str) -> bool:
        self.deaths[trial_id] += 1
        return self.deaths[trial_id] <= RETRIES

    def retried(self, trial_id: str, why: str) -> None:
        self.retries.append((trial_id, why))

    def note(self, text: str) -> None:
        self.notes.append(text)


def trials(num: int, **does: Any) -> list[dict[str, Any]]:
    return [{"id": f"t{index}", **does} for index in range(num)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory):
    """Two places in one Ray for the whole file."""
    modules, tmp = tmp_path_factory.mktemp("modules"), tmp_path_factory.mktemp("tmp")
    (modules / "fake_worker.py").write_text(WORKER)
    fleet = cluster.Fleet(workers=2, tmp=str(tmp))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(modules), prepend=os.pathsep)
        with cluster.connected(fleet):
            yield fleet
    assert list(tmp.iterdir()) == []


def run(plan: Any, fleet: cluster.Fleet, store: Path) -> dict[str, list[str]]:
    """Run a plan; the lines that the workers left, by trial."""

    def order(trial: Any) -> dict[str, Any]:
        worker = "fake_worker:Worker"
        return {"trial": trial.to_plain(), "store": str(store), "data": "", "worker": worker}

    cluster.run(plan, fleet, order)
    return {path.name: path.read_text().splitlines() for path in store.iterdir()}


@pytest.fixture(scope="module")
def calm(fleet: cluster.Fleet, tmp_path_factory: pytest.TempPathFactory):
    """A run in which nothing goes wrong."""
    late = [{"id": f"late{index}", "after": ["t0", "t1"]} for index in range(2)]
    never = {"id": "never", "after": ["nobody"]}
    pruned = {"id": "pruned", "epochs": 9}
    plan = Plan(never, *late, *trials(30, epochs=2), pruned, prune=("pruned", 2))
    plan.on_progress = lambda trial_id: plan.below.update(below_the_raylet())
    return plan, run(plan, fleet, tmp_path_factory.mktemp("calm"))


def below_the_raylet() -> dict[int, str]:
    """The processes that the raylet has started and that run now: pid -> command."""
    (raylet,) = own_processes()["raylet"]
    commands: dict[int, str] = {}
    for pid in children(raylet.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            commands[pid] = Path(f"/proc/{pid}/cmdline").read_text()
    return commands


@pytest.fixture(scope="module")
def rough(fleet: cluster.Fleet, tmp_path_factory: pytest.TempPathFactory):
    """A run in which workers die and fail."""
    killed = {"id": "killed", "epochs": 3, "dies_at": 2}
    doomed = {"id": "doomed", "dies_at": 1, "deaths": 99}
    ended = {"id": "ended", "epochs": 3, "dies_at": 2, "signal": int(signal.SIGTERM)}
    plan = Plan({"id": "buggy", "raises": True}, killed, *trials(4), doomed, ended)
    return plan, run(plan, fleet, tmp_path_factory.mktemp("rough"))


@pytest.mark.slow
def test_all_trials_run_once_two_at_a_time(calm) -> None:
    plan, lines = calm
    names = [f"t{index}" for index in range(30)]
    assert sorted(plan.done) == sorted([*names, "late0", "late1"])
    assert all(lines[name][1:] == ["epoch 1", "epoch 2"] for name in names)
    assert plan.most_at_once == 2
    assert not plan.losses and not plan.retries and "never" not in lines


def test_actors_stay_warm_with_the_threads_of_a_trial(calm) -> None:
    plan, _ = calm
    assert len({epoch.metrics["pid"] for _, epoch in plan.epochs}) == 2
    assert {epoch.metrics["threads"] for _, epoch in plan.epochs} == {"1"}


def test_a_node_has_two_processes_in_c_and_its_workers(calm, fleet) -> None:
    """No dashboard, monitor or agent: the two Python processes that Ray needs do nothing."""
    plan, _ = calm
    own = own_processes()
    assert sorted(own) == ["gcs_server", "raylet"]
    idle = {pid for pid, command in plan.below.items() if str(NO_AGENT) in command}
    assert len(idle) == 2
    # On a busy machine Ray may start one worker more than there are places.
    assert {epoch.metrics["pid"] for _, epoch in plan.epochs} <= set(plan.below) - idle


def test_a_trial_waits_for_those_it_builds_on(calm) -> None:
    plan, _ = calm
    parents = max(plan.done.index("t0"), plan.done.index("t1"))
    assert parents < min(plan.done.index("late0"), plan.done.index("late1"))


def test_a_pruned_trial_stops(calm) -> None:
    plan, lines = calm
    assert plan.pruned == ["pruned"]
    assert lines["pruned"][1:] == ["epoch 1", "epoch 2"]


def test_a_killed_worker_is_replaced_and_its_trial_goes_on(rough) -> None:
    plan, lines = rough
    assert sorted(plan.done) == ["ended", "killed", "t0", "t1", "t2", "t3"]
    for name in ("ended", "killed"):  # by SIGTERM, which raises nothing in the trial, or SIGKILL
        words = [line.split()[0] for line in lines[name]]
        assert words == ["begin", "epoch", "begin", "epoch", "epoch"]
        reasons = [why for trial_id, why in plan.retries if trial_id == name]
        assert len(reasons) == 1 and "was killed" in reasons[0] and "\n" not in reasons[0]


def test_the_schedule_decides_how_often_a_worker_may_die(rough) -> None:
    plan, lines = rough
    assert len(lines["doomed"]) == 1 + RETRIES == plan.deaths["doomed"]
    assert "was killed" in plan.losses["doomed"]


def test_an_error_of_ours_loses_the_trial_with_its_text(rough) -> None:
    plan, lines = rough
    assert "ZeroDivisionError: our own bug" in plan.losses["buggy"]
    assert len(lines["buggy"]) == 1


def test_a_worker_killed_while_idle_costs_one_retry(fleet: cluster.Fleet, tmp_path: Path) -> None:
    after = [{"id": f"late{index}", "after": ["long"]} for index in range(2)]
    plan = Plan({"id": "short"}, {"id": "long", "epochs": 9999, "sleep": 0.05}, *after)
    plan.prune = ("long", 9999)

    def kills(trial_id: str) -> None:
        pids = {name: epoch.metrics["pid"] for name, epoch in plan.epochs}
        if plan.done == ["short"] and len(pids) == 2 and plan.prune == ("long", 9999):
            os.kill(pids["short"], signal.SIGKILL)
            plan.prune, plan.done = ("long", len(plan.epochs) + 5), ["short", "long"]

    plan.on_progress = kills
    run(plan, fleet, tmp_path)
    assert sorted(plan.done) == ["late0", "late1", "long", "short"]
    assert len(plan.retries) == 1 and not plan.losses


def test_stopping_saves_what_runs(fleet: cluster.Fleet, tmp_path: Path) -> None:
    plan = Plan(*trials(9, epochs=1000, sleep=0.02))

    def stops(trial_id: str) -> None:
        plan.stopping = len({name for name, _ in plan.epochs}) == 2

    plan.on_progress = stops
    lines = run(plan, fleet, tmp_path)
    assert sorted(lines) == ["t0", "t1"]
    assert all(text[-1] == "save" and text.count("save") == 1 for text in lines.values())
    assert not plan.done and not plan.losses and not plan.retries


def test_an_error_of_the_schedule_comes_out_as_it_is(fleet: cluster.Fleet, tmp_path: Path) -> None:
    plan = Plan(*trials(4, epochs=500, sleep=0.01))

    def fails(trial_id: str) -> None:
        raise StoreError("the disk is full")

    plan.on_progress = fails
    with pytest.raises(StoreError, match="the disk is full"):
        run(plan, fleet, tmp_path)
