"""A running study on screen: a live view in a terminal or a notebook, else occasional plain lines.

Reporting an event only appends to a queue. A separate thread applies the queue to the `Board` four
times a second and shows it. It shows validation only: the test split is for the table.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TextIO

from ablate.compare.text.figures import duration, shown
from ablate.compare.text.labels import labels
from ablate.compare.text.plain import printable
from ablate.config.identity import Trial
from ablate.engine.board import Board
from ablate.engine.in_words import (
    OF_ARM,
    OF_TRIAL,
    Message,
    by_urgency,
    closing_line,
    of_arm,
    of_trial,
    progress_line,
)
from ablate.engine.notebook import Notebook, is_notebook
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.study_record import StudyRecord

REFRESH_SECONDS = 0.25
LINE_SECONDS = 20.0  # between plain lines, if there are too many trials for a line each
SLOWEST_LINES = 600.0  # between plain lines while nothing ends
FEW_TRIALS = 100  # up to this many trials get a line each
NARROW = 80  # terminals narrower than this have shorter headings and smaller gaps
SHORT = {"running": "run", "best valid": "best", "time left": "left"}
NUM_TROUBLES = 20  # lost trials that are reported one by one; the rest are counted


class Screen:
    """Shows a study while it runs. `interactive` and `stream` are detected if not given."""

    def __init__(
        self,
        record: StudyRecord,
        interactive: bool | None = None,
        stream: TextIO | None = None,
        console: Any = None,  # a rich console to use instead of the stream
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._events: deque[Callable[[], Message | None]] = deque()
        self._lock, self._over = threading.Lock(), threading.Event()
        self._broken, self._num_lost = False, 0
        self._reasons: dict[str, str] = {}  # the first trial that was lost for each reason
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
        self.refresh()  # of what was reported since the thread's last look
        self._guarded(lambda: self._presenter.close(self.board, self._clock()))

    def started(self, trial: Trial) -> None:
        """Show that a trial runs."""
        now = self._clock()  # of the event, and not of the next refresh
        self._events.append(lambda: self.board.started(trial, now))

    def progress(
        self,
        trial_id: str,
        epoch: Epoch | None,
        reached: float | None = None,  # epochs done, with the share of the one under way
    ) -> None:
        """Show an epoch's metrics, or the share of an epoch that is done."""
        now = self._clock()
        if epoch is not None:
            self._events.append(lambda: self.board.progress(trial_id, epoch, now))
        if reached is not None:
            self._events.append(lambda: self.board.reached(trial_id, reached, now))

    def finished(self, trial_id: str, journal: Journal) -> None:
        """Show a trial's result."""
        now = self._clock()
        self._events.append(lambda: self._ended(trial_id, journal, now))

    def retried(self, trial_id: str, why: str) -> None:
        """Show that a trial runs again, and why."""
        self._events.append(lambda: self._retrying(trial_id, why))

    def note(self, text: str) -> None:
        """Show a message that stays."""
        self._events.append(lambda: Message(text))

    def planned(self, record: StudyRecord) -> None:
        """Count the trials of a plan that has grown."""
        self._events.append(lambda: self.board.take_record(record))

    def refresh(self) -> None:
        """Apply the queued events and show them now."""
        with self._lock:
            results = [self._events.popleft()() for _ in range(len(self._events))]
            messages = [message for message in results if message is not None]
            self._guarded(lambda: self._presenter.show(self.board, messages, self._clock()))

    def _keep_showing(self) -> None:
        while not self._over.wait(REFRESH_SECONDS):
            self.refresh()

    def _guarded(self, show: Callable[[], None]) -> None:
        """Call `show`; a terminal that has gone away must not stop a study."""
        if not self._broken:
            try:
                show()
            except (OSError, ValueError):  # a ValueError: the stream is closed
                self._broken = True

    def _ended(self, trial_id: str, journal: Journal, now: float) -> Message | None:
        ran = self.board.finished(trial_id, journal, now)
        lost = journal.status not in (Status.COMPLETED, Status.PRUNED)
        self._num_lost += lost
        if (ran is None and not lost) or (lost and self._num_lost > NUM_TROUBLES):
            return None
        counted = f"[{len(self.board.ended)}/{self.board.total}] {journal.trial.name}"
        loss = self.board.losses.get(trial_id)
        metric = self.board.metric
        result = journal.status if loss is None else f"valid {metric.shown} {shown(metric, loss)}"
        reason = ((journal.outcome and journal.outcome.reason) or "").split("\n")[0]
        first = self._reasons.setdefault(reason, journal.trial.name) if reason and lost else ""
        reason = reason if first in ("", journal.trial.name) else f"as {first}"
        took = f" in {duration(now - ran.start)}" if ran else ""
        return Message(f"{counted}: {result}{took}{': ' if reason else ''}{reason}", stays=lost)

    def _retrying(self, trial_id: str, why: str) -> Message:
        running = self.board.running.get(trial_id)
        return Message(f"{running.trial.name if running else trial_id} is being retried: {why}")


class Lines:
    """A few plain lines, for a log, a pipe, or a machine without rich."""

    def __init__(self, stream: TextIO, now: float) -> None:
        self._stream = stream
        encoding = getattr(stream, "encoding", None) or "utf-8"
        self._unicode = encoding.lower().startswith("utf")
        self._last_line, self._pause = now, LINE_SECONDS
        self._num_done, self._began = 0, False

    def open(self, board: Board) -> None:
        """Print how many trials there are."""
        arms = f"{len(board.arms)} arm{'s' if len(board.arms) > 1 else ''}"
        self._print(f"{board.record.key}: {board.total} trials of {arms}", board.start)

    def show(self, board: Board, messages: list[Message], now: float) -> None:
        """Print the messages, and from time to time the progress."""
        if not self._began and (board.running or board.num_here):
            self._began = True
            before = len(board.ended) - board.num_here
            if before:
                self._print(f"{before} of {board.total} trials were already done", now)
        for message in messages:
            if message.stays or board.total <= FEW_TRIALS:
                self._print(message.text, now)
        self._meanwhile(board, now)

    def close(self, board: Board, now: float) -> None:
        """Print the last line."""
        self._print(closing_line(board, now), now)

    def _meanwhile(self, board: Board, now: float) -> None:
        """Write a line every 20 s while trials end, and less and less often while none does."""
        moved = len(board.ended) != self._num_done
        if moved:
            self._num_done, self._pause = len(board.ended), LINE_SECONDS
        if (moved or board.running) and now - self._last_line >= self._pause:
            self._print(progress_line(board, now), now)
            self._pause = min(2 * self._pause, SLOWEST_LINES)

    def _print(self, text: str, now: float) -> None:
        self._stream.write(printable(text, self._unicode) + "\n")
        self._stream.flush()
        self._last_line = now


class Live:
    """rich's live view: arms, running trials, progress; lasting messages go above it."""

    def __init__(self, console: Any) -> None:
        from rich.live import Live as RichLive

        self._console = console
        self._live = RichLive(console=console, auto_refresh=False, transient=True)

    def open(self, board: Board) -> None:
        """Start the display."""
        self._live.start()

    def show(self, board: Board, messages: list[Message], now: float) -> None:
        """Print the messages that stay above the display, and draw it again."""
        for message in messages:
            if message.stays:
                self._print(message.text)
        drawn = view(board, now, self._console.height, self._console.width)
        self._live.update(drawn, refresh=True)

    def close(self, board: Board, now: float) -> None:
        """Stop the display, and print the last line."""
        self._live.stop()
        self._print(closing_line(board, now))

    def _print(self, text: str) -> None:
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def view(board: Board, now: float, height: int, width: int) -> Any:
    """Return the board as something rich can print, no higher or wider than the terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    room = max(4, height - 8)  # title, two headers, two "more" lines, the bar, some space
    num_running = min(len(board.running), max(2, room // 3))
    last = Table.grid(padding=(0, 2, 0, 0))
    length = 8 if width < NARROW else 20
    bar = ProgressBar(total=max(1, board.total), completed=len(board.ended), width=length)
    last.add_row(bar, printable(progress_line(board, now)))  # wraps, where it must
    return Group(
        _text(f"{board.record.key}: {board.record.question}", "bold"),
        _arms_table(board, now, room - num_running, width),
        *([_running_table(board, num_running, width)] if board.running else []),
        last,
    )


def _arms_table(board: Board, now: float, room: int, width: int) -> Any:
    arms = by_urgency(board) if len(board.arms) > room else list(board.arms.values())
    table = _table(width, "arm", *OF_ARM)
    names = _names([arm.name for arm in arms[:room]], width)
    for arm, name in zip(arms, names, strict=False):
        cells = dict(zip(OF_ARM, of_arm(board, arm, now), strict=True))
        cells["lost"] = _text(cells["lost"], "red")
        table.add_row(_text(name, "bold" if arm.running else ""), *cells.values())
    if len(arms) > room:
        table.add_row(_text(f"and {len(arms) - room} more arms", "dim"))
    return table


def _names(arms: list[str], width: int) -> list[str]:
    """The arms' names, cut to what the other columns leave of the terminal's width."""
    return labels(arms, max(12, width - (46 if width < NARROW else 62)))


def _running_table(board: Board, room: int, width: int) -> Any:
    table = _table(width, "running", *OF_TRIAL)
    shown_here = list(board.running.values())[:room]
    names = _names([running.trial.arm for running in shown_here], width)
    for running, name in zip(shown_here, names, strict=True):
        stage, *cells = of_trial(running, board.metric)
        table.add_row(_text(name), _text(stage), *cells)
    if len(board.running) > room:
        table.add_row(_text(f"and {len(board.running) - room} more", "dim"))
    return table


def _table(width: int, first: str, *others: str) -> Any:
    from rich.table import Table

    if width < NARROW:
        others = tuple(SHORT.get(title, title) for title in others)
    gap = 1 if width < NARROW else 2
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, gap, 0, 0))
    table.add_column(first, no_wrap=True, min_width=12)
    for title in others:
        table.add_column(title, justify="left" if title == "stage" else "right", no_wrap=True)
    return table


def _text(text: str, style: str = "") -> Any:
    """Return rich text without parsing markup: a name may contain brackets."""
    from rich.text import Text

    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def is_watched() -> bool:
    """Return whether a terminal or a notebook shows what this process prints."""
    return is_notebook() or _is_terminal(sys.stdout)


def announce(text: str) -> None:
    """Print a line at once, before there is a study to show: imports and plans take seconds."""
    if sys.stdout is None or is_notebook():
        return
    with contextlib.suppress(OSError, ValueError):  # as a screen's: nobody reads it
        print(printable(text), flush=True)


def _presenter(
    interactive: bool | None, stream: TextIO, console: Any, now: float
) -> Lines | Live | Notebook:
    if interactive is None and stream is sys.stdout and is_notebook():
        return Notebook(now)
    if not (_is_terminal(stream) if interactive is None else interactive):
        return Lines(stream, now)
    try:
        from rich.console import Console
    except ImportError:  # rich is optional: without it, print lines
        return Lines(stream, now)
    return Live(console or Console(file=stream))


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # no real stream, or a closed one
        return False
