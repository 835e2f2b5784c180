"""The state of a running study, arm by arm, that the screen shows."""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from ablate.config.identity import Trial
from ablate.config.metrics import Metric
from ablate.engine.forecast import Job, search_jobs, seconds_until_done, starting_after
from ablate.engine.pace import LATEST, Pace, Took
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.study_record import SearchRecord, StudyRecord, starting_order

TELLING_SHARE = 0.02  # of an epoch, from which on it says how long the whole takes
Kind = tuple[str, bool]  # what trials of the same length share: the arm, and whether they are final


@dataclass
class Running:
    """A running trial and its progress."""

    trial: Trial
    start: float
    epoch: int = 0
    num_epochs: int | None = None
    loss: float | None = None
    tokens_a_second: float | None = None
    seconds: float | None = None  # the trial's own clock at its last epoch
    reached: float = 0.0  # epochs done, with the share of the one under way
    latest: float | None = None  # when it reached that
    first: tuple[float, float] | None = None  # what it had reached when first seen, and when
    whole: bool = False  # seen from its first epoch to its last, none of them twice
    restarted: bool = False
    epochs: deque[float] = field(default_factory=lambda: deque(maxlen=LATEST))  # their seconds

    def update(self, epoch: Epoch, metric: Metric, now: float) -> None:
        """Update from an epoch that has ended."""
        if epoch.number <= self.epoch:
            self._restart()
        self.whole = self.whole or (epoch.number == 1 and not self.restarted)
        before = self.seconds if self.epoch else (0.0 if epoch.number == 1 else None)
        self.epoch, self.seconds = epoch.number, epoch.seconds
        self.loss = metric.loss_of(epoch.metrics, "valid")
        self.reached, self.latest = float(self.epoch), now
        took = None if before is None or self.seconds is None else self.seconds - before
        if took is not None:
            self.epochs.append(took)
        tokens = epoch.tokens
        self.tokens_a_second = tokens / took if tokens and took and took > 0 else None

    def reach(self, epochs: float, now: float) -> None:
        """Update from how many epochs are done, with the share of the one under way."""
        if epochs < self.reached:
            self._restart()
        self.first = self.first or (epochs, now)
        if epochs > self.reached:
            self.reached, self.latest = epochs, now

    def _restart(self) -> None:
        """Forget what was learned: it was cut, and repeats what was not saved."""
        self.epoch, self.seconds, self.reached = 0, None, 0.0
        self.first = self.latest = None
        self.whole, self.restarted = False, True
        self.epochs.clear()

    @property
    def pace(self) -> float | None:
        """Return the seconds of an epoch: by the latest ones seen, else by the share seen of one,
        else by all; None before that."""
        if self.epochs:
            return statistics.fmean(self.epochs)
        if self.first and self.latest and self.reached - self.first[0] >= TELLING_SHARE:
            return (self.latest - self.first[1]) / (self.reached - self.first[0])
        return self.seconds / self.epoch if self.epoch and self.seconds else None

    @property
    def expected(self) -> float | None:
        """Return the estimated seconds of all epochs, once its pace is known."""
        return self.pace * self.num_epochs if self.pace and self.num_epochs else None

    def left(self, now: float, usual: float | None, closing: float) -> float | None:
        """Return the estimated seconds left: by its own epochs, else by `usual`.

        `closing`: what follows the last epoch. What takes longer than expected is expected to
        take as much longer again.
        """
        if self.pace is None or self.num_epochs is None or self.latest is None:
            return None if usual is None else abs(usual - (now - self.start))
        num_left, since = self.num_epochs - self.reached, now - self.latest
        if num_left <= 0:
            return abs(closing - since)
        return abs(self.pace * num_left + closing - min(since, self.pace))


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
        return self.planned & self.board.ended.keys()

    @property
    def running(self) -> set[str]:
        return self.planned & self.board.running.keys()

    @property
    def lost(self) -> set[str]:
        """Those of `done` that diverged or failed."""
        fine = (Status.COMPLETED, Status.PRUNED)
        return {trial for trial in self.done if self.board.ended[trial] not in fine}

    @property
    def best(self) -> float | None:
        """The lowest validation loss of all completed trials, searches included."""
        losses = self.board.losses
        return min((losses[trial] for trial in self.planned & losses.keys()), default=None)

    @property
    def total(self) -> int:
        return len(self.planned) + self.to_come

    @property
    def waiting(self) -> set[str]:
        return self.planned - self.done - self.running

    @property
    def left(self) -> int:
        return len(self.waiting) + self.to_come


class Board:
    """The state of a running study. Only one thread at a time may update it."""

    def __init__(self, record: StudyRecord, now: float) -> None:
        self.start = now
        self.arms: dict[str, ArmState] = {}
        self.running: dict[str, Running] = {}
        self.ended: dict[str, str] = {}  # trial -> status
        self.losses: dict[str, float] = {}  # trial -> validation loss, if it completed
        self.num_here = 0  # ended while this screen was open
        self.workers = 0  # most trials seen to run at once
        self._known: set[str] = set()
        self._epochs: dict[Kind, float] = {}  # of the trials of a kind, in the mean
        self._pace = Pace()
        self.take_record(record)

    def take_record(self, record: StudyRecord) -> None:
        """Update the plan, which grows as searches request trials."""
        self.record, self.metric = record, record.metric
        to_come = record.to_come
        for arm in record.arms:
            self._arm(arm.name).to_come = to_come[arm.name]
        planned: dict[Kind, list[int]] = {}
        for trial in record.trials:
            self._plan(trial.id, trial.arm)
            if trial.epochs is not None:
                planned.setdefault((trial.arm, trial.final), []).append(trial.epochs)
            if trial.final:
                self._arm(trial.arm).finals.add(trial.id)
        for search in record.searches:
            for trial_id in search.trials:
                self._plan(trial_id, search.arm)
        self._parents = {trial.id: trial.parents for trial in record.trials}
        in_order = starting_order(record.trials)
        self._places = {trial_id: place for place, trial_id in enumerate(in_order)}
        self._epochs = {kind: statistics.fmean(epochs) for kind, epochs in planned.items()}

    def started(self, trial: Trial, now: float) -> None:
        self.running[trial.id] = Running(trial, now, num_epochs=_num_epochs(trial))
        self.workers = max(self.workers, len(self.running))
        self.ended.pop(trial.id, None)
        self._plan_if_unknown(trial)

    def progress(self, trial_id: str, epoch: Epoch, now: float) -> None:
        if trial_id in self.running:
            self.running[trial_id].update(epoch, self.metric, now)

    def reached(self, trial_id: str, epochs: float, now: float) -> None:
        if trial_id in self.running:
            self.running[trial_id].reach(epochs, now)

    def finished(self, trial_id: str, journal: Journal, now: float) -> Running | None:
        """Return the trial as it ran; None if it was done before and did not run here."""
        running = self.running.pop(trial_id, None)
        status = journal.status or Status.FAILED
        self.ended[trial_id] = status
        loss = self.metric.loss_of(journal.metrics, "valid")
        if status == Status.COMPLETED and loss is not None:
            self.losses[trial_id] = loss
        self._plan_if_unknown(journal.trial)
        if running is not None:
            self.num_here += 1
        if status in (Status.COMPLETED, Status.PRUNED):
            self._learn_pace(journal, running, now)
        return running

    def _learn_pace(self, journal: Journal, running: Running | None, now: float) -> None:
        """Learn what a trial took: as seen here from start to end, else by its own clock."""
        if running is not None and running.latest is not None:
            self._pace.closed(now - running.latest)
        kind, own = self._kind(journal.trial), _own_seconds(journal)
        if running is not None and (running.whole or own is None):
            self._pace.took(kind, now - running.start, len(journal.epochs), here=True)
        elif own is not None:
            seconds = own + (self._pace.closing if journal.epochs else 0.0)
            self._pace.took(kind, seconds, len(journal.epochs), here=running is not None)

    def _kind(self, trial: Trial) -> Kind:
        arm = self._arm(trial.arm)
        return arm.name, trial.id in arm.finals

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
        return len(self._known) + sum(arm.to_come for arm in self.arms.values())

    @property
    def troubles(self) -> str:
        """Return `2 diverged, 1 failed`, for example, or an empty string."""
        counted = Counter(status for status in self.ended.values() if status != Status.COMPLETED)
        return ", ".join(f"{num} {status}" for status, num in counted.items())

    def seconds_left(self, now: float, arms: Iterable[ArmState] | None = None) -> float | None:
        """Estimate the seconds left for the study or some of its arms; None while unknown."""
        chosen = list(self.arms.values() if arms is None else arms)
        running: dict[Hashable, float] = {
            one: self._left(one, now) for arm in chosen for one in arm.running
        }
        jobs = [*self._planned_jobs(chosen), *self._searched_jobs(chosen)]
        seconds = seconds_until_done(jobs, self.workers, running)
        return None if math.isnan(seconds) else seconds

    def _left(self, trial_id: str, now: float) -> float:
        running = self.running[trial_id]
        return _number(
            running.left(now, self._usual(self._kind(running.trial)), self._pace.closing)
        )

    def _planned_jobs(self, arms: Iterable[ArmState]) -> list[Job]:
        """Return the planned trials that have not started, once each: arms may share some."""
        kinds: dict[str, Kind] = {}
        for arm in arms:
            for trial in arm.waiting:
                kinds.setdefault(trial, (arm.name, trial in arm.finals))
        usual = {kind: _number(self._usual(kind)) for kind in set(kinds.values())}
        in_order = sorted(kinds, key=lambda trial: self._places.get(trial, len(self._places)))
        return [Job(one, usual[kinds[one]], self._parents.get(one, ())) for one in in_order]

    def _searched_jobs(self, arms: Iterable[ArmState]) -> list[Job]:
        """Return what the arms' searches may still request, and what then confirms the winners."""
        names = {arm.name for arm in arms}
        jobs: list[Job] = []
        for search in self.record.searches:
            num = 0 if search.shared else search.unrequested
            if search.arm in names and (num or search.confirming):
                usual = _number(self._usual((search.arm, False))) if num else 0.0
                of_search = search_jobs(search, num, usual, self._model_of(search))
                jobs += [*of_search, *starting_after(self._confirming(search), of_search)]
        return jobs

    def _model_of(self, search: SearchRecord) -> list[str]:
        """Return the trials of the model whose evaluation is searched, if that is what is."""
        cell = (search.arm, search.seed_index)
        return [one.id for one in self.record.trials if (one.arm, one.seed_index) == cell]

    def _confirming(self, search: SearchRecord) -> list[Job]:
        own = (search.arm, search.repeat, search.seed_index)
        after = search.confirming_after or ((),) * len(search.confirming)
        return [
            Job((own, at), _number(self._of_epochs(epochs)), [(own, one) for one in positions])
            for at, (epochs, positions) in enumerate(zip(search.confirming, after, strict=True))
        ]

    def _usual(self, kind: Kind) -> float | None:
        return self._pace.usual(kind, self._epochs.get(kind), self._expected())

    def _of_epochs(self, epochs: int | None) -> float | None:
        """Estimate a trial of this many epochs, of no arm in particular."""
        return self._pace.usual(None, epochs, self._expected())

    def _expected(self) -> dict[Hashable, list[Took]]:
        """What the running trials are expected to take, by kind."""
        running: dict[Hashable, list[Took]] = {}
        for one in self.running.values():
            if one.expected and one.num_epochs:
                took = (one.expected, one.num_epochs)
                running.setdefault(self._kind(one.trial), []).append(took)
        return running


def _number(seconds: float | None) -> float:
    return math.nan if seconds is None else seconds


def _own_seconds(journal: Journal) -> float | None:
    """Return the seconds of a trial's epochs, or of its evaluation, by its own clock."""
    if journal.epochs:
        return journal.epochs[-1].seconds
    return journal.outcome.seconds if journal.outcome else None


def _num_epochs(trial: Trial) -> int | None:
    """Return the epochs planned. A language model's are always among its values."""
    if "task" in trial.values:
        return trial.config.num_epochs
    epochs = trial.values.get("training.epochs")
    return epochs if isinstance(epochs, int) and epochs > 0 else None
