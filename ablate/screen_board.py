"""What a running study has come to, arm by arm: the state behind the screen."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.compare.figures import number
from ablate.compare.units import unit_of
from ablate.identity import Trial
from ablate.journal import COMPLETED, PRUNED, Journal
from ablate.study_record import PlannedTrial, StudyRecord


@dataclass
class Running:
    """A trial that runs, as far as it is."""

    trial: Trial
    begun: float
    epoch: int = 0
    num_epochs: int | None = None
    nats: float | None = None
    tokens_a_second: float | None = None
    seconds: float | None = None  # the trial's own clock at its last epoch

    def learnt(self, metrics: Mapping[str, Any]) -> None:
        """Take in the metrics of an epoch. `seconds` counts on from epoch to epoch."""
        before = self.seconds if self.epoch else (0.0 if metrics.get("epoch") == 1 else None)
        self.epoch = int(metrics.get("epoch", self.epoch + 1))
        self.nats = number(metrics.get("valid_nll"))
        self.seconds = number(metrics.get("seconds"))
        took = None if before is None or self.seconds is None else self.seconds - before
        tokens = number(metrics.get("tokens"))
        self.tokens_a_second = tokens / took if tokens and took and took > 0 else None

    @property
    def whole(self) -> float | None:
        """Seconds that all its epochs will have taken, once one is done."""
        if self.epoch and self.num_epochs and self.seconds:
            return self.seconds / self.epoch * self.num_epochs
        return None

    def left(self, now: float, usual: float | None) -> float | None:
        """Seconds to its end: by its own epochs, else as others of its kind took."""
        if self.whole is not None and self.seconds is not None:
            return max(0.0, self.whole - self.seconds)
        return None if usual is None else max(0.0, usual - (now - self.begun))


@dataclass
class ArmState:
    """An arm's trials by what became of them, and their validation losses."""

    name: str
    planned: set[str] = field(default_factory=set)
    unasked: int = 0  # trials that its searches may still ask for
    done: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)  # of those, diverged or failed
    running: set[str] = field(default_factory=set)
    finals: set[str] = field(default_factory=set)
    best: float | None = None  # valid nats, of all completed trials, a search's included

    @property
    def total(self) -> int:
        return len(self.planned) + self.unasked

    @property
    def left(self) -> int:
        return max(0, self.total - len(self.done) - len(self.running))


class Board:
    """What is known of a running study. One thread at a time takes events into it."""

    def __init__(self, record: StudyRecord, now: float) -> None:
        self.begun = now
        self.arms: dict[str, ArmState] = {}
        self.running: dict[str, Running] = {}
        self.ended: dict[str, str] = {}  # trial -> how
        self.nats: dict[str, float] = {}  # trial -> its validation, if it completed
        self.num_here = 0  # ended while this screen looked on
        self.workers = 0  # most trials seen to run at once
        self._known: set[str] = set()
        self._took: dict[str, deque[float]] = {}  # arm -> seconds that its last trials took
        self.take_record(record)

    def take_record(self, record: StudyRecord) -> None:
        """The plan, which grows while searches ask for trials."""
        self.record = record
        self.unit = unit_of(record.level)
        self._places: dict[str, list[PlannedTrial]] = {}
        for arm in record.arms:
            self._arm(arm.name).unasked = 0
        for trial in record.trials:
            self._places.setdefault(trial.id, []).append(trial)
            self._plan(trial.id, trial.arm)
            if trial.final:
                self._arm(trial.arm).finals.add(trial.id)
        for search in record.searches:
            for trial_id in search.trials:
                self._plan(trial_id, search.arm)
            self._arm(search.arm).unasked += max(0, search.num_trials - len(search.trials))

    def started(self, trial: Trial, now: float) -> None:
        epochs = trial.values.get("training.epochs")
        num_epochs = epochs if isinstance(epochs, int) and epochs > 0 else None
        self.running[trial.id] = Running(trial, now, num_epochs=num_epochs)
        self.workers = max(self.workers, len(self.running))
        self.ended.pop(trial.id, None)
        for arm in self._arms_of(trial.id, trial.arm):
            self._plan(trial.id, arm.name)
            arm.running.add(trial.id)
            arm.done.discard(trial.id)
            arm.lost.discard(trial.id)

    def progress(self, trial_id: str, metrics: Mapping[str, Any]) -> None:
        if trial_id in self.running:
            self.running[trial_id].learnt(metrics)

    def finished(self, trial_id: str, journal: Journal, now: float) -> Running | None:
        """The trial as it ran; None if it did not run here, but was done before."""
        running = self.running.pop(trial_id, None)
        status = journal.status or "failed"
        self.ended[trial_id] = status
        nats = number((journal.outcome or {}).get("metrics", {}).get("valid_nll"))
        if status == COMPLETED and nats is not None:
            self.nats[trial_id] = nats
        for arm in self._arms_of(trial_id, journal.trial.arm):
            self._plan(trial_id, arm.name)
            arm.running.discard(trial_id)
            self._count(trial_id, arm)
        if running is not None:
            self.num_here += 1
            if status == COMPLETED:
                took = self._took.setdefault(running.trial.arm, deque(maxlen=10))
                took.append(now - running.begun)
        return running

    def _plan(self, trial_id: str, arm: str) -> None:
        self._known.add(trial_id)
        state = self._arm(arm)
        state.planned.add(trial_id)
        if trial_id in self.ended and trial_id not in state.done:
            self._count(trial_id, state)

    def _count(self, trial_id: str, arm: ArmState) -> None:
        arm.done.add(trial_id)
        if self.ended[trial_id] not in (COMPLETED, PRUNED):
            arm.lost.add(trial_id)
        nats = self.nats.get(trial_id)
        if nats is not None:
            arm.best = min(nats, nats if arm.best is None else arm.best)

    def _arms_of(self, trial_id: str, otherwise: str) -> list[ArmState]:
        """The arms that a trial belongs to; a trial may be shared."""
        names = {place.arm for place in self._places.get(trial_id, ())}
        return [self._arm(name) for name in names or {otherwise}]

    def _arm(self, name: str) -> ArmState:
        return self.arms.setdefault(name, ArmState(name))

    @property
    def total(self) -> int:
        return len(self._known) + sum(arm.unasked for arm in self.arms.values())

    @property
    def troubles(self) -> str:
        """`2 diverged, 1 failed`, or nothing."""
        counted = Counter(how for how in self.ended.values() if how != COMPLETED)
        return ", ".join(f"{num} {how}" for how, num in counted.items())

    def seconds_left(self, now: float, arms: Iterable[ArmState] | None = None) -> float | None:
        """Of the study, or of some of its arms; None while nothing is known."""
        chosen = list(self.arms.values() if arms is None else arms)
        running = (self.running[trial_id] for arm in chosen for trial_id in arm.running)
        begun = [each.left(now, self._usual(each.trial.arm)) for each in running]
        usual = [(arm.left, self._usual(arm.name)) for arm in chosen if arm.left]
        if any(each is None for each in begun) or any(each is None for _, each in usual):
            return None
        waiting = sum(num * (each or 0.0) for num, each in usual)
        known = [each or 0.0 for each in begun]
        return max([(sum(known) + waiting) / max(1, self.workers), *known])

    def _usual(self, arm: str) -> float | None:
        """Seconds that a trial of this arm takes: as its own did, else as any does."""
        known = self._took.get(arm) or [took for every in self._took.values() for took in every]
        known = known or [each.whole for each in self.running.values() if each.whole is not None]
        return statistics.fmean(known) if known else None
