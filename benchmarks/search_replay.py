"""Searches on recorded learning curves: strategies that suggest, and a replay that shows them.

Ours runs as in a study: `ablate.tune.search.arm.ArmSearch` suggests, receives every epoch
but the last, and of the end. Ray Tune's is its OptunaSearch and its ASHAScheduler, called in the
order in which its controller calls them (2.60, `_process_trial_result` and `stop_trial`).
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import Any, Protocol

import optuna
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch

from ablate import Arm, Scale, Search, Study, table
from ablate.space import space
from ablate.space.row import Choices, Row
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Outcome, Status
from ablate.study.plan import MAX_SEARCHED, Plan, make_plan
from ablate.tune.search.arm import ArmSearch
from benchmarks.search_curves import EPOCHS, MODEL, SPACE, Curve, Table

BY_FIELD = {row.field: row for row in space.load(SPACE).rows if row.field}


class Strategy(Protocol):
    """One search."""

    def ask(self) -> tuple[str, Mapping[str, Any]]:
        """Return a new trial's name and values."""
        ...

    def report(self, name: str, epoch: int, loss: float) -> bool:
        """Report an epoch that is not the last; return whether the trial continues."""
        ...

    def tell(self, name: str, losses: Sequence[float], status: str) -> None:
        """Report the end of a trial: completed, pruned or diverged."""
        ...


class Ours:
    """A study's own search, without its schedule and its workers."""

    def __init__(
        self, seed: int, sampler: str = "tpe", early_stopping: str | None = "asha"
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        plan = _plan(sampler, early_stopping)
        planned = replace(plan.searches[0], seed=seed)
        self.search = ArmSearch(planned, plan, optuna.storages.InMemoryStorage())

    def ask(self) -> tuple[str, Mapping[str, Any]]:
        trial = self.search.ask()
        if trial is None:
            raise RuntimeError("the search has ended; its budget was to be endless")
        return trial.id, trial.values

    def report(self, name: str, epoch: int, loss: float) -> bool:
        return self.search.report(name, Epoch(epoch, {"valid_nll": loss}))

    def tell(self, name: str, losses: Sequence[float], status: str) -> None:
        metrics = {"valid_nll": min(losses)} if status == Status.COMPLETED else {}
        outcome = Outcome(status=Status(status), metrics=metrics)
        self.search.tell(Journal(self.search.trials[name], outcome=outcome))


@cache
def _plan(sampler: str, early_stopping: str | None) -> Plan:
    """A plan with one search. Which corpus it names does not matter: nothing is trained."""
    words = Search(
        space=str(SPACE), trials=MAX_SEARCHED, sampler=sampler, early_stopping=early_stopping
    )
    searched = Study(
        question="How soon is the best found?",
        base=MODEL,
        base_arm="lstm",
        design=table(Arm("lstm")),
        scales={"replay": Scale(search=words)},
        name="search",
    )
    with tempfile.TemporaryDirectory() as folder:
        return make_plan(searched, "replay", data=folder)


class Stock:
    """Ray Tune's searcher and scheduler, all settings but those given at their defaults."""

    def __init__(self, seed: int, **asha: Any) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        logging.getLogger("ray.tune").setLevel(logging.ERROR)
        self.search = OptunaSearch(seed=seed)
        self.search.set_search_properties("valid_nll", "min", _tune_space())
        self._scheduler: Any = ASHAScheduler(max_t=EPOCHS, metric="valid_nll", mode="min", **asha)
        self._names = map(str, itertools.count())
        self._trials: dict[str, Any] = {}

    def ask(self) -> tuple[str, Mapping[str, Any]]:
        name = next(self._names)
        self._trials[name] = SimpleNamespace(trial_id=name)
        values = self.search.suggest(name)
        self._scheduler.on_trial_add(None, self._trials[name])
        return name, values or {}

    def report(self, name: str, epoch: int, loss: float) -> bool:
        result = {"training_iteration": epoch, "valid_nll": loss}
        if self._scheduler.on_trial_result(None, self._trials[name], result) == "STOP":
            return False
        self.search.on_trial_result(name, result)
        return True

    def tell(self, name: str, losses: Sequence[float], status: str) -> None:
        """Report trials that ASHA stopped, even at their end, as complete with their last loss."""
        if status == Status.DIVERGED:
            self.search.on_trial_complete(name, error=True)
            return
        result = {"training_iteration": len(losses), "valid_nll": losses[-1]}
        if status == Status.COMPLETED:
            self._scheduler.on_trial_result(None, self._trials[name], result)
        self._scheduler.on_trial_complete(None, self._trials[name], result)
        self.search.on_trial_complete(name, result=result)


def _tune_space() -> dict[str, Any]:
    """Return the same space in Ray Tune's classes."""
    return {name: _tune_domain(row) for name, row in BY_FIELD.items()}


def _tune_domain(row: Row) -> Any:
    domain: Any = row.domain
    if isinstance(domain, Choices):
        return tune.choice(list(domain.values))
    if domain.integer:
        return tune.randint(int(domain.low), int(domain.high) + 1)
    return (tune.loguniform if domain.log else tune.uniform)(domain.low, domain.high)


@dataclass(order=True)
class _Running:
    """A running trial: a unit of time is an update."""

    epoch_ends: int
    number: int
    name: str = field(compare=False)
    curve: Curve = field(compare=False)
    epochs: int = field(default=0, compare=False)


@dataclass
class Replay:
    """What a search found, and when."""

    found: list[tuple[int, float]] = field(default_factory=list)  # (updates spent, best so far)
    updates: int = 0  # in all
    asked: int = 0

    def reached(self, target: float) -> float:
        """Return the updates spent until a loss was reached; infinite if it never was."""
        return next((float(spent) for spent, loss in self.found if loss <= target), math.inf)

    def best_at(self, updates: float) -> float:
        """Return the best loss after N updates; infinite before the first trial has ended."""
        return min((loss for spent, loss in self.found if spent <= updates), default=math.inf)

    @property
    def best(self) -> float:
        return self.best_at(math.inf)


def replay(
    strategy: Strategy,
    table: Table,
    *,
    updates: float = math.inf,
    trials: float = math.inf,
    workers: int = 1,
) -> Replay:
    """Search until a number of updates is spent, or a number of trials has ended.

    A trial counts once it has ended by itself, with the best of its epochs.
    """
    done = Replay()
    running = [_begun(strategy, table, 0, done) for _ in range(workers)]
    while running and done.updates < updates:
        trial = heapq.heappop(running)
        done.updates += trial.curve.updates
        status = _epoch_ended(strategy, trial)
        if status is None:
            trial.epoch_ends += trial.curve.updates
            heapq.heappush(running, trial)
            continue
        losses = trial.curve.losses[: trial.epochs]
        strategy.tell(trial.name, losses, status)
        if status == Status.COMPLETED and min(losses) < done.best:
            done.found.append((done.updates, min(losses)))
        if done.asked < trials:
            heapq.heappush(running, _begun(strategy, table, trial.epoch_ends, done))
    return done


def _begun(strategy: Strategy, table: Table, now: int, done: Replay) -> _Running:
    done.asked += 1
    name, values = strategy.ask()
    curve = table.curve(values)
    return _Running(now + curve.updates, done.asked, name, curve)


def _epoch_ended(strategy: Strategy, trial: _Running) -> str | None:
    """How the trial ended; None while it runs."""
    if trial.epochs == len(trial.curve.losses):
        return Status.DIVERGED  # in the epoch after the last that has a loss
    trial.epochs += 1
    if trial.epochs == EPOCHS:
        return Status.COMPLETED
    loss = trial.curve.losses[trial.epochs - 1]
    return None if strategy.report(trial.name, trial.epochs, loss) else Status.PRUNED
