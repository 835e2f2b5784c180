"""A running study below the cell of a notebook that runs it.

It is one output of the cell that is replaced every second; no widget has to be installed.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

from ablate.compare.formats import Table, table_of
from ablate.compare.page import render
from ablate.compare.page.parts import Grid, Progress, Text
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

PAUSE_SECONDS = 1.0  # between updates, which the notebook's file does not keep
MOST_ROWS = 20  # of arms, and of running trials
MOST_MESSAGES = 8


def is_notebook() -> bool:
    """Return whether this process is a notebook's kernel."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None else None
    return getattr(shell, "kernel", None) is not None


class Notebook:
    """Shows a study in the output of a cell."""

    def __init__(self, now: float) -> None:
        self._messages: deque[str] = deque(maxlen=MOST_MESSAGES)
        self._handle: Any = None
        self._last = now

    def open(self, board: Board) -> None:
        """Make the output."""
        from IPython.display import display

        self._handle = display(_html(self._parts(board, self._last)), display_id=True)

    def show(self, board: Board, messages: list[Message], now: float) -> None:
        """Replace the output, once a second."""
        self._messages.extend(message.text for message in messages if message.stays)
        if now - self._last >= PAUSE_SECONDS:
            self._last = now
            self._handle.update(_html(self._parts(board, now)))

    def close(self, board: Board, now: float) -> None:
        """Leave the messages and the last line."""
        last = [closing_line(board, now), *self._messages]
        self._handle.update(_html([Text(text, "small") for text in last]))

    def _parts(self, board: Board, now: float) -> list[Any]:
        parts: list[Any] = [
            Text(f"{board.record.key}: {board.record.question}"),
            Progress(len(board.ended), max(1, board.total), progress_line(board, now)),
            Grid(_arms(board, now)),
        ]
        if board.running:
            parts.append(Grid(_running(board)))
        return [*parts, *(Text(text, "small") for text in self._messages)]


def _html(parts: list[Any]) -> Any:
    from IPython.display import HTML

    return HTML(render.fragment(parts))


def _arms(board: Board, now: float) -> Table:
    arms = by_urgency(board) if len(board.arms) > MOST_ROWS else list(board.arms.values())
    rows = [[arm.name, *of_arm(board, arm, now)] for arm in arms[:MOST_ROWS]]
    return table_of(["arm", *OF_ARM], [*rows, *_more(len(arms), "arms", OF_ARM)])


def _running(board: Board) -> Table:
    running = list(board.running.values())
    rows = [[each.trial.arm, *of_trial(each, board.metric)] for each in running[:MOST_ROWS]]
    more = _more(len(running), "trials", OF_TRIAL)
    return table_of(["running", *OF_TRIAL], [*rows, *more], left=["stage"])


def _more(num: int, what: str, headings: tuple[str, ...]) -> list[list[str]]:
    """A last row that counts those that have no row."""
    left_out = num - MOST_ROWS
    return [[f"and {left_out} more {what}", *[""] * len(headings)]] if left_out > 0 else []
