"""How long the trials of a study take, learned from those that have ended."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Hashable, Iterable

LATEST = 10  # trials or epochs that count: the load of a machine changes


class Pace:
    """Seconds per trial by kind of trial, such as the arm and whether it is final.

    Trials that this driver saw count before those of earlier ones, and those of the same kind
    before the others: other machines and other arms are slower or faster.
    """

    def __init__(self) -> None:
        self._here: dict[Hashable, deque[float]] = {}
        self._before: dict[Hashable, deque[float]] = {}
        self._closing: deque[float] = deque(maxlen=LATEST)

    def took(self, kind: Hashable, seconds: float, here: bool) -> None:
        """Record what a trial took; `here`: as this driver saw it."""
        known = self._here if here else self._before
        known.setdefault(kind, deque(maxlen=LATEST)).append(seconds)

    def closed(self, seconds: float) -> None:
        """Record what followed a trial's last epoch: evaluators, the last checkpoint."""
        self._closing.append(seconds)

    @property
    def closing(self) -> float:
        """Mean seconds from a trial's last epoch to its end; 0 while unknown."""
        return statistics.fmean(self._closing) if self._closing else 0.0

    def usual(self, kind: Hashable, running: Iterable[float]) -> float | None:
        """Mean seconds of a trial of this kind; `running`: estimates of trials under way."""
        same = (self._here.get(kind), self._before.get(kind))
        for known in (*same, _all(self._here), list(running), _all(self._before)):
            if known:
                return statistics.fmean(known)
        return None


def _all(known: dict[Hashable, deque[float]]) -> list[float]:
    return [seconds for kind in known.values() for seconds in kind]
