"""How long the trials of a study take, learned from those that have ended."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Hashable, Mapping, Sequence

LATEST = 10  # trials or epochs that count: the load of a machine changes
Took = tuple[float, int]  # the seconds of a trial, and its epochs
Known = Mapping[Hashable, Sequence[Took]]


class Pace:
    """Seconds per trial by kind of trial, such as the arm and whether it is final.

    Trials that this driver saw count before those of earlier ones, and those of the same kind
    before the others: other machines and other arms are slower or faster. What earlier ones took
    is scaled by how much slower or faster trials of a kind are here than they were then. Of
    another kind, the seconds of an epoch count, and trials that train nothing say nothing about
    those that train.
    """

    def __init__(self) -> None:
        self._here: dict[Hashable, deque[Took]] = {}
        self._before: dict[Hashable, deque[Took]] = {}
        self._closing: deque[float] = deque(maxlen=LATEST)

    def took(self, kind: Hashable, seconds: float, epochs: int, here: bool) -> None:
        """Record what a trial took; `here`: as this driver saw it."""
        known = self._here if here else self._before
        known.setdefault(kind, deque(maxlen=LATEST)).append((seconds, epochs))

    def closed(self, seconds: float) -> None:
        """Record what followed a trial's last epoch: evaluators, the last checkpoint."""
        self._closing.append(seconds)

    @property
    def closing(self) -> float:
        """Mean seconds from a trial's last epoch to its end; 0 while unknown."""
        return statistics.fmean(self._closing) if self._closing else 0.0

    def usual(self, kind: Hashable, epochs: float | None, running: Known) -> float | None:
        """Mean seconds of a trial of this kind; `epochs`: how many it has, if that is known.

        `running`: estimates of trials under way.
        """
        if self._here.get(kind):
            return _mean(self._here[kind])
        if self._before.get(kind):
            before, now = self._before[kind], {**running, **self._here}
            return _mean(before) * self._slower(now, trains=_trains(before))
        for others in (_all(self._here), _all(running), _all(self._before)):
            if (seconds := _of_others(others, epochs)) is not None:
                return seconds
        return self.closing if epochs == 0 else None

    def _slower(self, now: Known, *, trains: bool) -> float:
        """How many times as long as under earlier drivers a trial takes now; 1 if no kind of trial
        ran under both.

        Trials that train are compared with trials that train, and the others with the others, if
        there are any: a processor may be slow at the products of training in half precision, and
        fast at those of evaluation.
        """
        both = now.keys() & self._before.keys()
        both = {kind for kind in both if _trains(self._before[kind]) == trains} or both
        if not (before := sum(_mean(self._before[kind]) for kind in both)):
            return 1.0
        return sum(_mean(now[kind]) for kind in both) / before


def _trains(took: Sequence[Took]) -> bool:
    return any(epochs > 0 for _, epochs in took)


def _mean(took: Sequence[Took]) -> float:
    return statistics.fmean(seconds for seconds, _ in took)


def _of_others(others: Sequence[Took], epochs: float | None) -> float | None:
    """Mean seconds of trials of other kinds, for a trial of `epochs`; None without any."""
    if epochs is not None:
        others = [took for took in others if (took[1] > 0) == (epochs > 0)]
    if not others:
        return None
    seconds = statistics.fmean(seconds for seconds, _ in others)
    known = [num for _, num in others if num]
    return seconds * epochs / statistics.fmean(known) if epochs and known else seconds


def _all(known: Known) -> list[Took]:
    return [took for kind in known.values() for took in kind]
