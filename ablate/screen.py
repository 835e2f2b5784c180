"""A running study on screen: a live view in a terminal, plain and rare lines elsewhere.

Who is told of an event only puts it in a queue. A thread of rich's takes them out, at most four
times a second, in a terminal; elsewhere the event that finds a line due writes it. Nothing that
goes wrong with the stream stops a study. Only validation is shown: test is for the table.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from ablate.compare.figures import NONE, count, decimal, duration
from ablate.compare.layout import printable
from ablate.compare.units import Unit, unit_of
from ablate.identity import Trial
from ablate.journal import COMPLETED, PRUNED, Journal
from ablate.study_record import PlannedTrial, StudyRecord

REFRESH = 4  # times a second
LINE_SECONDS = 20.0  # between lines where there are many trials
SLOWEST_LINES = 600.0  # between lines while nothing ends
FEW_TRIALS = 100  # so many trials get a line each
NUM_TROUBLES = 20  # told one by one, the rest are counted

Event = tuple[str, Any, Any, float]  # what, of which trial, with what, when


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
        self.nats = _finite(metrics.get("valid_nll"))
        self.seconds = _finite(metrics.get("seconds"))
        took = None if before is None or self.seconds is None else self.seconds - before
        tokens = _finite(metrics.get("tokens"))
        self.tokens_a_second = tokens / took if tokens and took and took > 0 else None

    def left(self, now: float, usual: float | None) -> float | None:
        """Seconds to its end: by its own epochs, else as others of its kind took."""
        elapsed = now - self.begun
        if self.epoch and self.num_epochs and self.epoch <= self.num_epochs:
            return elapsed / self.epoch * (self.num_epochs - self.epoch)
        return None if usual is None else max(0.0, usual - elapsed)


@dataclass
class ArmState:
    """An arm's trials, counted, and the validation of its final ones."""

    name: str
    planned: set[str] = field(default_factory=set)
    unasked: int = 0  # trials that its searches may still ask for
    done: set[str] = field(default_factory=set)
    running: int = 0
    losses: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return len(self.planned | self.done) + self.unasked

    @property
    def left(self) -> int:
        return max(0, self.total - len(self.done) - self.running)


class Board:
    """What is known of a running study; one thread at a time takes events into it."""

    def __init__(self, record: StudyRecord, now: float) -> None:
        self.begun = now
        self.running: dict[str, Running] = {}
        self.ended: dict[str, str] = {}  # trial -> how
        self.num_ended_here = 0
        self._took: dict[tuple[str, str], list[float]] = {}  # (arm, stage) -> [seconds, trials]
        self.arms: dict[str, ArmState] = {}
        self.take_record(record)

    def take_record(self, record: StudyRecord) -> None:
        """The plan, which grows while searches ask for trials."""
        self.record = record
        self.places: dict[str, list[PlannedTrial]] = {}
        self.arms = {arm.name: self.arms.get(arm.name) or ArmState(arm.name) for arm in record.arms}
        for trial in record.trials:
            self.places.setdefault(trial.id, []).append(trial)
            self._arm(trial.arm).planned.add(trial.id)
            if trial.id in self.ended:
                self._arm(trial.arm).done.add(trial.id)
        for arm in self.arms.values():
            arm.unasked = 0
        for search in record.searches:
            arm = self._arm(search.arm)
            arm.planned.update(search.trials)
            arm.unasked += max(0, search.num_trials - len(search.trials))

    def started(self, trial: Trial, now: float) -> None:
        epochs = trial.values.get("training.epochs")
        known = epochs if isinstance(epochs, int) and epochs > 0 else None
        self.ended.pop(trial.id, None)
        self.running[trial.id] = Running(trial, now, num_epochs=known)
        self._arm(trial.arm).planned.add(trial.id)
        for name in self._arms_of(trial.id, trial.arm):
            self._arm(name).done.discard(trial.id)

    def finished(self, trial_id: str, journal: Journal, now: float) -> Running | None:
        """The trial as it ran, or None if it was done before or has been told of already."""
        known = trial_id in self.ended
        running = self.running.pop(trial_id, None)
        self.ended[trial_id] = journal.status or "failed"
        for name in self._arms_of(trial_id, journal.trial.arm):
            self._arm(name).done.add(trial_id)
        self._take_loss(trial_id, journal)
        if running is None or known:
            return None
        self.num_ended_here += 1
        if journal.status != PRUNED:
            kind = (running.trial.arm, running.trial.stage)
            seconds, num = self._took.get(kind, (0.0, 0))
            self._took[kind] = [seconds + now - running.begun, num + 1]
        return running

    def _take_loss(self, trial_id: str, journal: Journal) -> None:
        metrics = (journal.outcome or {}).get("metrics", {})
        nats = _finite(metrics.get("valid_nll"))
        if journal.status == COMPLETED and nats is not None:
            for place in self.places.get(trial_id, ()):
                if place.final:
                    self._arm(place.arm).losses[trial_id] = nats

    def _arms_of(self, trial_id: str, arm: str) -> Iterable[str]:
        return [place.arm for place in self.places.get(trial_id, ())] or [arm]

    def _arm(self, name: str) -> ArmState:
        return self.arms.setdefault(name, ArmState(name))

    @property
    def total(self) -> int:
        every = {trial_id for arm in self.arms.values() for trial_id in arm.planned | arm.done}
        return len(every) + sum(arm.unasked for arm in self.arms.values())

    def seconds_left(self, now: float, arm: str | None = None) -> float | None:
        """Of the study, or of an arm's share of it; None while nothing is known."""
        arms = [self.arms[arm]] if arm else list(self.arms.values())
        names = {each.name for each in arms}
        here = [r for r in self.running.values() if r.trial.arm in names]
        work = [r.left(now, self._usual(r.trial.arm)) for r in here]
        work += [self._work(each) for each in arms if each.left]
        if any(seconds is None for seconds in work):
            return None
        return sum(seconds or 0.0 for seconds in work) / max(1, len(self.running))

    def _work(self, arm: ArmState) -> float | None:
        usual = self._usual(arm.name)
        return None if usual is None else usual * arm.left

    def _usual(self, arm: str) -> float | None:
        """Seconds that a trial of this arm takes: as its own did, else as any did."""
        own = [took for (name, _), took in self._took.items() if name == arm]
        known = own or list(self._took.values())
        if known:
            return sum(seconds for seconds, _ in known) / sum(num for _, num in known)
        whole = [
            r.seconds / r.epoch * r.num_epochs
            for r in self.running.values()
            if r.seconds and r.epoch and r.num_epochs
        ]
        return sum(whole) / len(whole) if whole else None

    def troubles(self) -> str:
        """`2 diverged, 1 failed`, or nothing."""
        counted = Counter(self.ended.values())
        return ", ".join(f"{n} {how}" for how, n in counted.items() if how != COMPLETED)


class Screen:
    """Shows a study while it runs; a context manager whose methods cost the driver nothing."""

    def __init__(
        self,
        record: StudyRecord,
        interactive: bool | None = None,
        stream: TextIO | None = None,
        *,
        console: Any = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream = stream if stream is not None else sys.stdout
        self._clock = clock
        self._events: deque[Event] = deque()
        self._latest: StudyRecord | None = None
        self._lock = threading.Lock()
        self.board = Board(record, clock())
        wanted = _is_terminal(self.stream) if interactive is None else interactive
        self._live = _live(console, self.stream, self._rendered) if wanted else None
        self._lines = Lines(self.stream, unit_of(record.level), clock())

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start(refresh=False)
        else:
            self._lines.say(_opening(self.board))
        return self

    def __exit__(self, error_type: type | None, *_: object) -> None:
        with self._lock:
            self._drain(tell=self._live is None)
        if self._live is not None:
            self._live.stop()
        self._lines.say(_closing(self.board, self._clock()))

    def started(self, trial: Trial) -> None:
        self._put("started", trial, None)

    def progress(self, trial_id: str, epoch_metrics: Mapping[str, Any] | None) -> None:
        if epoch_metrics is not None:
            self._put("progress", trial_id, epoch_metrics)

    def finished(self, trial_id: str, journal: Journal) -> None:
        self._put("finished", trial_id, journal)

    def retried(self, trial_id: str, why: str) -> None:
        self._put("retried", trial_id, why)

    def note(self, text: str) -> None:
        self._put("note", "", text)

    def planned(self, record: StudyRecord) -> None:
        """The plan has grown."""
        self._latest = record

    def _put(self, what: str, trial: Any, about: Any) -> None:
        now = self._clock()
        self._events.append((what, trial, about, now))
        if self._live is None and self._lines.wanted(what, now) and self._lock.acquire(False):
            try:
                self._drain(tell=True)
            finally:
                self._lock.release()

    def _drain(self, tell: bool) -> list[str]:
        """Take in what has happened; in plain mode, say what is to be said of it."""
        if self._latest is not None:
            record, self._latest = self._latest, None
            self.board.take_record(record)
        said = []
        while self._events:
            event = self._events.popleft()
            said += self._lines.about(self.board, event)
        if tell:
            said += self._lines.meanwhile(self.board, self._clock())
            for line in said:
                self._lines.say(line)
        return said

    def _rendered(self) -> Any:
        """What rich's thread shows; lasting lines go above it."""
        with self._lock:
            said = self._drain(tell=False)
            view = _view(self.board, self._clock(), self._live.console)
        for line in said:
            self._live.console.print(line, markup=False, highlight=False)
        return view
