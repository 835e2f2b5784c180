"""A running study in words, for every way to show it: rows of arms and trials, and lines."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

from ablate.compare.text.figures import NONE, count, decimal, duration, shown
from ablate.config.metrics import Metric
from ablate.engine.board import ArmState, Board
from ablate.engine.forecast import Running

OF_ARM = ("done", "running", "lost", "best valid", "mean", "time left")
OF_TRIAL = ("stage", "seed", "epoch", "valid", "tokens/s")


class Message(NamedTuple):
    """A message: it stays on screen, or is shown only if there are few trials."""

    text: str
    stays: bool = True


def by_urgency(board: Board) -> list[ArmState]:
    """Running arms first, then waiting ones, then finished ones."""
    return sorted(board.arms.values(), key=lambda arm: (not arm.running, not arm.left))


def of_arm(board: Board, arm: ArmState, now: float) -> list[str]:
    """What a row of an arm has, under `OF_ARM`."""
    seconds = board.seconds_left(now, [arm])
    return [
        f"{len(arm.done)}/{arm.total}",
        str(len(arm.running) or ""),
        str(len(arm.lost) or ""),
        NONE if arm.best is None else shown(board.metric, arm.best),
        _mean(board, arm),
        duration(seconds) if seconds else "",
    ]


def of_trial(running: Running, metric: Metric) -> list[str]:
    """What a row of a running trial has, under `OF_TRIAL`."""
    return [
        running.trial.stage,
        str(running.trial.seed),
        # Rounded down: an epoch is shown as done when it is.
        f"{math.floor(10 * running.reached) / 10:g}/{running.num_epochs or '?'}",
        NONE if running.loss is None else shown(metric, running.loss),
        count(running.tokens_a_second),
    ]


def _mean(board: Board, arm: ArmState) -> str:
    show, digits = board.metric.show, board.metric.digits
    values = [show(board.losses[trial]) for trial in arm.finals if trial in board.losses]
    mean = decimal(statistics.fmean(values), digits) if values else NONE
    return f"{mean}±{decimal(statistics.stdev(values), digits)}" if values[1:] else mean


def progress_line(board: Board, now: float) -> str:
    """Return one line: time elapsed, time left, trials done."""
    left = board.seconds_left(now)
    parts = [
        f"{duration(now - board.start)} elapsed",
        f"about {duration(left)} left" if left is not None else "time left unknown",
        f"{len(board.ended)} of {board.total} trials done",
        f"{len(board.running)} running",
        board.troubles,
    ]
    return " · ".join(part for part in parts if part)


def closing_line(board: Board, now: float) -> str:
    """Return the last line."""
    whole = len(board.ended) == board.total
    if whole and board.total and not board.num_here:
        return f"{board.record.key}: nothing is left to do, all {board.total} trials are done"
    state = "" if whole else "stopped, "
    troubles = f" ({board.troubles})" if board.troubles else ""
    done = f"{state}{len(board.ended)} of {board.total} trials done{troubles}"
    return f"{board.record.key}: {done} after {duration(now - board.start)}"
