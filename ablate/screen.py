"""A running study on screen: a live view in a terminal, plain and rare lines elsewhere.

To be told of an event costs an append to a queue. A thread of the screen's own empties it a few
times a second into the `Board`, and shows that; nothing that goes wrong with the stream stops a
study. Only validation is shown: the test split is for the table.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TextIO

from ablate.compare.figures import NONE, count, decimal, duration, number
from ablate.compare.units import unit_of
from ablate.identity import Trial
from ablate.journal import COMPLETED, PRUNED, Journal
from ablate.layout import printable
from ablate.study_record import PlannedTrial, StudyRecord

REFRESH_SECONDS = 0.25
LINE_SECONDS = 20.0  # between plain lines, where there are too many trials for a line each
SLOWEST_LINES = 600.0  # between plain lines while nothing ends
FEW_TRIALS = 100  # so many trials get a line each
NUM_TROUBLES = 20  # lost trials that are told of one by one; further ones are counted


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


class Said(NamedTuple):
    """Something to be said: in passing, where there is room, or so that it stays."""

    text: str
    stays: bool = True


class Screen:
    """Shows a study while it runs. `interactive` and `stream` are found out where not given."""

    def __init__(
        self,
        record: StudyRecord,
        interactive: bool | None = None,
        stream: TextIO | None = None,
        console: Any = None,  # rich's, to be used instead of the stream
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._events: deque[Callable[[], Said | None]] = deque()
        self._newest: StudyRecord | None = None
        self._lock, self._over = threading.Lock(), threading.Event()
        self._broken, self._num_lost = False, 0
        self._thread = threading.Thread(target=self._keep_showing, name="screen", daemon=True)
        self.board = Board(record, clock())
        self._presenter = _presenter(interactive, stream or sys.stdout, console, clock())

    def __enter__(self) -> Screen:
        self._guarded(lambda: self._presenter.open(self.board))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.refresh()
        self._guarded(lambda: self._presenter.close(self.board, self._clock()))

    def started(self, trial: Trial) -> None:
        now = self._clock()
        self._events.append(lambda: self.board.started(trial, now))

    def progress(self, trial_id: str, epoch_metrics: Mapping[str, Any] | None) -> None:
        if epoch_metrics is not None:
            self._events.append(lambda: self.board.progress(trial_id, epoch_metrics))

    def finished(self, trial_id: str, journal: Journal) -> None:
        now = self._clock()
        self._events.append(lambda: self._ended(trial_id, journal, now))

    def retried(self, trial_id: str, why: str) -> None:
        self._events.append(lambda: self._retrying(trial_id, why))

    def note(self, text: str) -> None:
        self._events.append(lambda: Said(text))

    def planned(self, record: StudyRecord) -> None:
        """The plan has grown."""
        self._newest = record

    def refresh(self) -> None:
        """Take in what has happened and show it now."""
        with self._lock:
            if self._newest is not None:
                record, self._newest = self._newest, None
                self.board.take_record(record)
            said = [self._events.popleft()() for _ in range(len(self._events))]
            heard = [each for each in said if each is not None]
            self._guarded(lambda: self._presenter.show(self.board, heard, self._clock()))

    def _keep_showing(self) -> None:
        while not self._over.wait(REFRESH_SECONDS):
            self.refresh()

    def _guarded(self, show: Callable[[], None]) -> None:
        """A terminal that went away is no reason to stop a study."""
        if not self._broken:
            try:
                show()
            except (OSError, ValueError):
                self._broken = True

    def _ended(self, trial_id: str, journal: Journal, now: float) -> Said | None:
        ran = self.board.finished(trial_id, journal, now)
        lost = journal.status not in (COMPLETED, PRUNED)
        self._num_lost += lost
        if (ran is None and not lost) or (lost and self._num_lost > NUM_TROUBLES):
            return None
        counted = f"[{len(self.board.ended)}/{self.board.total}] {_name(journal.trial)}"
        nats = self.board.nats.get(trial_id)
        found = journal.status if nats is None else f"valid {self.board.unit.text(nats)}"
        reason = str((journal.outcome or {}).get("reason", "")).split("\n")[0]
        took = f" in {duration(now - ran.begun)}" if ran else ""
        return Said(f"{counted}: {found}{took}{': ' if reason else ''}{reason}", stays=lost)

    def _retrying(self, trial_id: str, why: str) -> Said:
        running = self.board.running.get(trial_id)
        return Said(f"{_name(running.trial) if running else trial_id} is tried again: {why}")


class Lines:
    """Plain lines, few of them: for a log, a pipe, a machine without rich."""

    def __init__(self, stream: TextIO, now: float) -> None:
        self._stream = stream
        encoding = getattr(stream, "encoding", None) or "utf-8"
        self._unicode = encoding.lower().startswith("utf")
        self._said_at, self._pause = now, LINE_SECONDS
        self._num_done, self._began = 0, False

    def open(self, board: Board) -> None:
        arms = f"{len(board.arms)} arm{'s' if len(board.arms) > 1 else ''}"
        self._say(f"{board.record.key}: {board.total} trials of {arms}", board.begun)

    def show(self, board: Board, said: list[Said], now: float) -> None:
        if not self._began and (board.running or board.num_here):
            self._began = True
            before = len(board.ended) - board.num_here
            if before:
                self._say(f"{before} of {board.total} trials were done already", now)
        for each in said:
            if each.stays or board.total <= FEW_TRIALS:
                self._say(each.text, now)
        self._meanwhile(board, now)

    def close(self, board: Board, now: float) -> None:
        self._say(closing(board, now), now)

    def _meanwhile(self, board: Board, now: float) -> None:
        """A line now and then: every 20 s while trials end, ever more rarely while none does."""
        if len(board.ended) != self._num_done:
            self._num_done, self._pause = len(board.ended), LINE_SECONDS
        if board.running and now - self._said_at >= self._pause:
            self._say(standing(board, now), now)
            self._pause = min(2 * self._pause, SLOWEST_LINES)

    def _say(self, text: str, now: float) -> None:
        self._stream.write(printable(text, self._unicode) + "\n")
        self._stream.flush()
        self._said_at = now


class Live:
    """rich's live view: the arms, what runs, how far it all is; what stays goes above it."""

    def __init__(self, console: Any) -> None:
        from rich.live import Live as RichLive

        self._console = console
        self._live = RichLive(console=console, auto_refresh=False, transient=True)

    def open(self, board: Board) -> None:
        self._live.start()

    def show(self, board: Board, said: list[Said], now: float) -> None:
        for each in said:
            if each.stays:
                self._say(each.text)
        self._live.update(view(board, now, self._console.height), refresh=True)

    def close(self, board: Board, now: float) -> None:
        self._live.stop()
        self._say(closing(board, now))

    def _say(self, text: str) -> None:
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def view(board: Board, now: float, height: int) -> Any:
    """The board as something rich can print, no higher than the terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    room = max(4, height - 8)  # title, two headers, two lines of more, the bar, room to breathe
    num_running = min(len(board.running), max(2, room // 3))
    last = Table.grid(padding=(0, 2, 0, 0))
    bar = ProgressBar(total=max(1, board.total), completed=len(board.ended), width=20)
    last.add_row(bar, _text(standing(board, now)))
    return Group(
        _text(f"{board.record.key}: {board.record.question}", "bold"),
        _arms_table(board, now, room - num_running),
        *([_running_table(board, num_running)] if board.running else []),
        last,
    )


def _arms_table(board: Board, now: float, room: int) -> Any:
    arms = list(board.arms.values())
    if len(arms) > room:  # those at work first, then those to come, then those done
        arms.sort(key=lambda arm: (not arm.running, not arm.left))
    table = _table("arm", "done", "running", "lost", "best valid", "mean", "time left")
    for arm in arms[:room]:
        seconds = board.seconds_left(now, [arm])
        table.add_row(
            _text(arm.name, "bold" if arm.running else ""),
            f"{len(arm.done)}/{arm.total}",
            str(len(arm.running) or ""),
            _text(str(len(arm.lost) or ""), "red"),
            NONE if arm.best is None else board.unit.text(arm.best),
            _mean(board, arm),
            duration(seconds) if seconds else "",
        )
    if len(arms) > room:
        table.add_row(_text(f"and {len(arms) - room} more arms", "dim"))
    return table


def _running_table(board: Board, room: int) -> Any:
    table = _table("running", "stage", "seed", "epoch", "valid", "tokens/s")
    for running in list(board.running.values())[:room]:
        trial = running.trial
        table.add_row(
            _text(trial.arm),
            _text(trial.stage),
            str(trial.seed),
            f"{running.epoch}/{running.num_epochs or '?'}",
            NONE if running.nats is None else board.unit.text(running.nats),
            count(running.tokens_a_second),
        )
    if len(board.running) > room:
        table.add_row(_text(f"and {len(board.running) - room} more", "dim"))
    return table


def _table(first: str, *others: str) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True, min_width=12)
    for title in others:
        table.add_column(title, justify="left" if title == "stage" else "right", no_wrap=True)
    return table


def _text(text: str, style: str = "") -> Any:
    """A name is no markup, whatever brackets it has."""
    from rich.text import Text

    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def standing(board: Board, now: float) -> str:
    """One line: elapsed, about how much is left, what is done of all."""
    left = board.seconds_left(now)
    parts = [
        f"{duration(now - board.begun)} elapsed",
        f"about {duration(left)} left" if left is not None else "time left not known yet",
        f"{len(board.ended)} of {board.total} trials done",
        f"{len(board.running)} running",
        board.troubles,
    ]
    return " · ".join(part for part in parts if part)


def closing(board: Board, now: float) -> str:
    """The last line."""
    state = "" if len(board.ended) == board.total else "stopped, "
    troubles = f" ({board.troubles})" if board.troubles else ""
    done = f"{state}{len(board.ended)} of {board.total} trials done{troubles}"
    return f"{board.record.key}: {done} after {duration(now - board.begun)}"


def _mean(board: Board, arm: ArmState) -> str:
    unit = board.unit
    values = [unit.show(board.nats[each]) for each in arm.finals if each in board.nats]
    mean = decimal(statistics.fmean(values), unit.digits) if values else NONE
    return f"{mean}±{decimal(statistics.stdev(values), unit.digits)}" if values[1:] else mean


def _name(trial: Trial) -> str:
    stage = "" if trial.stage == "train" else f" {trial.stage}"
    return f"{trial.arm}{stage} seed {trial.seed}"


def _presenter(interactive: bool | None, stream: TextIO, console: Any, now: float) -> Lines | Live:
    if not (_is_terminal(stream) if interactive is None else interactive):
        return Lines(stream, now)
    try:
        from rich.console import Console
    except ImportError:  # the view is a comfort: without rich, lines will do
        return Lines(stream, now)
    return Live(console or Console(file=stream))


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # no real stream, or a closed one
        return False
