"""The state of a running study, arm by arm, that the screen shows."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.compare.text.figures import unit_of
from ablate.config.identity import Trial
from ablate.store.journal import Journal
from ablate.store.numbers import finite
from ablate.store.outcome import Status
from ablate.store.study_record import PlannedTrial, StudyRecord


@dataclass
class Running:
    """A running trial and its progress."""

    trial: Trial
    begun: float
    epoch: int = 0
    num_epochs: int | None = None
    nats: float | None = None
    tokens_a_second: float | None = None
    seconds: float | None = None  # the trial's own clock at its last epoch

    def learnt(self, metrics: Mapping[str, Any]) -> None:
        """Update from the metrics of an epoch. `seconds` is cumulative over epochs."""
        before = self.seconds if self.epoch else (0.0 if metrics.get("epoch") == 1 else None)
        self.epoch = int(metrics.get("epoch", self.epoch + 1))
        self.nats = finite(metrics.get("valid_nll"))
        self.seconds = finite(metrics.get("seconds"))
        took = None if before is None or self.seconds is None else self.seconds - before
        tokens = finite(metrics.get("tokens"))
        self.tokens_a_second = tokens / took if tokens and took and took > 0 else None

    @property
    def whole(self) -> float | None:
        """Return the estimated seconds for all epochs, once one is done."""
        if self.epoch and self.num_epochs and self.seconds:
            return self.seconds / self.epoch * self.num_epochs
        return None

    def left(self, now: float, usual: float | None) -> float | None:
        """Return the estimated seconds left: by its own epochs, else by `usual`."""
        if self.whole is not None and self.seconds is not None:
            return max(0.0, self.whole - self.seconds)
        return None if usual is None else max(0.0, usual - (now - self.begun))


@dataclass
class ArmState:
    """An arm's trials by state, and its best validation loss."""

    name: str
    planned: set[str] = field(default_factory=set)
    unasked: int = 0  # trials that its searches may still request
    done: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)  # those of `done` that diverged or failed
    running: set[str] = field(default_factory=set)
    finals: set[str] = field(default_factory=set)
    best: float | None = None  # lowest valid nats of all completed trials, searches included

    @property
    def total(self) -> int:
        return len(self.planned) + self.unasked

    @property
    def left(self) -> int:
        return max(0, self.total - len(self.done) - len(self.running))


class Board:
    """The state of a running study. Only one thread at a time may update it."""

    def __init__(self, record: StudyRecord, now: float) -> None:
        self.begun = now
        self.arms: dict[str, ArmState] = {}
        self.running: dict[str, Running] = {}
        self.ended: dict[str, str] = {}  # trial -> status
        self.nats: dict[str, float] = {}  # trial -> validation nats, if it completed
        self.num_here = 0  # ended while this screen was open
        self.workers = 0  # most trials seen to run at once
        self._known: set[str] = set()
        self._took: dict[str, deque[float]] = {}  # arm -> seconds of its latest trials
        self.take_record(record)

    def take_record(self, record: StudyRecord) -> None:
        """Update the plan, which grows as searches request trials."""
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
        """Return the trial as it ran; None if it was done before and did not run here."""
        running = self.running.pop(trial_id, None)
        status = journal.status or Status.FAILED
        self.ended[trial_id] = status
        nats = finite(journal.metrics.get("valid_nll"))
        if status == Status.COMPLETED and nats is not None:
            self.nats[trial_id] = nats
        for arm in self._arms_of(trial_id, journal.trial.arm):
            self._plan(trial_id, arm.name)
            arm.running.discard(trial_id)
            self._count(trial_id, arm)
        if running is not None:
            self.num_here += 1
            if status == Status.COMPLETED:
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
        if self.ended[trial_id] not in (Status.COMPLETED, Status.PRUNED):
            arm.lost.add(trial_id)
        nats = self.nats.get(trial_id)
        if nats is not None:
            arm.best = min(nats, nats if arm.best is None else arm.best)

    def _arms_of(self, trial_id: str, otherwise: str) -> list[ArmState]:
        """Return the arms that a trial belongs to; arms may share a trial."""
        names = {planned.arm for planned in self._places.get(trial_id, ())}
        return [self._arm(name) for name in names or {otherwise}]

    def _arm(self, name: str) -> ArmState:
        return self.arms.setdefault(name, ArmState(name))

    @property
    def total(self) -> int:
        return len(self._known) + sum(arm.unasked for arm in self.arms.values())

    @property
    def troubles(self) -> str:
        """Return `2 diverged, 1 failed`, for example, or an empty string."""
        counted = Counter(status for status in self.ended.values() if status != Status.COMPLETED)
        return ", ".join(f"{num} {status}" for status, num in counted.items())

    def seconds_left(self, now: float, arms: Iterable[ArmState] | None = None) -> float | None:
        """Estimate the seconds left for the study or some of its arms; None while unknown."""
        chosen = list(self.arms.values() if arms is None else arms)
        running = (self.running[trial_id] for arm in chosen for trial_id in arm.running)
        started = [trial.left(now, self._usual(trial.trial.arm)) for trial in running]
        usual = [(arm.left, self._usual(arm.name)) for arm in chosen if arm.left]
        if None in started or any(seconds is None for _, seconds in usual):
            return None
        waiting = sum(num * (seconds or 0.0) for num, seconds in usual)
        known = [seconds or 0.0 for seconds in started]
        return max([(sum(known) + waiting) / max(1, self.workers), *known])

    def _usual(self, arm: str) -> float | None:
        """Return the mean seconds of this arm's trials, else of all trials."""
        known = self._took.get(arm) or [seconds for arms in self._took.values() for seconds in arms]
        known = known or [each.whole for each in self.running.values() if each.whole is not None]
        return statistics.fmean(known) if known else None
