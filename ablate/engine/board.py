"""The state of a running study, arm by arm, that the screen shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ablate.config.identity import Trial
from ablate.engine.forecast import Forecast, Running
from ablate.store import states
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.study_record import StudyRecord


@dataclass
class ArmState:
    """An arm's trials. Which of them run or have ended is read from the board."""

    name: str
    board: Board = field(repr=False)
    planned: set[str] = field(default_factory=set)
    to_come: int = 0  # trials of its searches that are not planned yet
    finals: set[str] = field(default_factory=set)

    @property
    def done(self) -> set[str]:
        """The planned trials that have ended, however they did."""
        return self.planned & self.board.ended.keys()

    @property
    def running(self) -> set[str]:
        """The planned trials that run now."""
        return self.planned & self.board.running.keys()

    @property
    def lost(self) -> set[str]:
        """The trials of `done` that diverged or failed."""
        fine = (Status.COMPLETED, Status.PRUNED)
        return {trial for trial in self.done if self.board.ended[trial] not in fine}

    @property
    def best(self) -> float | None:
        """The lowest validation loss of all completed trials, searches included."""
        losses = self.board.losses
        return min((losses[trial] for trial in self.planned & losses.keys()), default=None)

    @property
    def total(self) -> int:
        """The number of the arm's trials, with those that its searches have yet to suggest."""
        return len(self.planned) + self.to_come

    @property
    def waiting(self) -> set[str]:
        """The planned trials that have not started."""
        return self.planned - self.done - self.running

    @property
    def left(self) -> int:
        """The number of trials that have yet to start."""
        return len(self.waiting) + self.to_come


class Board:
    """The state of a running study. Only one thread at a time may update it."""

    def __init__(self, record: StudyRecord, now: float) -> None:
        self.start = now
        self.arms: dict[str, ArmState] = {}
        self.ended: dict[str, Status | None] = {}  # trial -> status
        self.losses: dict[str, float] = {}  # trial -> validation loss, if it completed
        self.num_here = 0  # ended while this screen was open
        self.workers = 0  # most trials seen to run at once
        self._known: set[str] = set()
        self._forecast = Forecast()
        self.running = self._forecast.running
        self.take_record(record)

    def take_record(self, record: StudyRecord) -> None:
        """Update the plan, which grows as searches request trials, and loses those of arms that a
        look decided."""
        self.record, self.metric = record, record.metric
        to_come = record.to_come
        for arm in record.arms:
            self._arm(arm.name).to_come = to_come[arm.name]
            if arm.stopped_at is not None:
                self._arm(arm.name).planned.intersection_update(record.trial_ids(arm.name))
        self._known = set[str]().union(*(arm.planned for arm in self.arms.values()))
        for trial in record.trials:
            self._plan(trial.id, trial.arm)
            if trial.final:
                self._arm(trial.arm).finals.add(trial.id)
        for search in record.searches:
            for trial_id in search.trials:
                self._plan(trial_id, search.arm)
        self._forecast.take_record(record)

    def started(self, trial: Trial, now: float) -> None:
        """Take in that a trial runs."""
        self._forecast.started(trial, now)
        self.workers = max(self.workers, len(self.running))
        self.ended.pop(trial.id, None)
        self._plan_if_unknown(trial)

    def progress(self, trial_id: str, epoch: Epoch, now: float) -> None:
        """Take in an epoch of a running trial."""
        if trial_id in self.running:
            self.running[trial_id].update(epoch, self.metric, now)

    def reached(self, trial_id: str, epochs: float, now: float) -> None:
        """Take in how many epochs a running trial has done, with the share of the next."""
        if trial_id in self.running:
            self.running[trial_id].reach(epochs, now)

    def finished(self, trial_id: str, journal: Journal, now: float) -> Running | None:
        """Return the trial as it ran; None if it was done before and did not run here."""
        running = self._forecast.ended(journal, now)
        status = journal.status or Status.FAILED
        self.ended[trial_id] = status
        loss = self.metric.loss_of(journal.metrics, "valid")
        if status == Status.COMPLETED and loss is not None:
            self.losses[trial_id] = loss
        self._plan_if_unknown(journal.trial)
        if running is not None:
            self.num_here += 1
        return running

    def _plan_if_unknown(self, trial: Trial) -> None:
        """Count a trial that is not in the record yet. Arms may share one that is."""
        if trial.id not in self._known:
            self._plan(trial.id, trial.arm)

    def _plan(self, trial_id: str, arm: str) -> None:
        self._known.add(trial_id)
        self._arm(arm).planned.add(trial_id)

    def _arm(self, name: str) -> ArmState:
        return self.arms.setdefault(name, ArmState(name, self))

    @property
    def total(self) -> int:
        """The number of the study's trials; arms may share some, which count once."""
        return len(self._known) + sum(arm.to_come for arm in self.arms.values())

    @property
    def troubles(self) -> str:
        """Return `2 diverged, 1 failed`, for example, or an empty string."""
        counted = states.counts(self.record, None, self.ended, alive=True)
        lost = (Status.DIVERGED, Status.FAILED, Status.PRUNED)
        return ", ".join(f"{counted[status]} {status}" for status in lost if counted[status])

    def seconds_left(self, now: float, arms: Iterable[ArmState] | None = None) -> float | None:
        """Estimate the seconds left for the study or some of its arms; None while unknown."""
        chosen = list(self.arms.values() if arms is None else arms)
        unfinished = {trial for arm in chosen for trial in arm.planned - self.ended.keys()}
        names = {arm.name for arm in chosen}
        return self._forecast.seconds_left(names, unfinished, self.workers, now)
