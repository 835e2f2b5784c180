"""The numbers of a study's table as its trials finish, for the charts of the records."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from ablate.compare.judged import Judged
from ablate.compare.table.rows import ArmSummary
from ablate.config.metrics import Metric
from ablate.store import course
from ablate.store.course import ArmPoint, Point
from ablate.store.journal import Journal
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord

MOST_NEW = 10  # points at a time: each counts the whole table


class Course:
    """Collects finished trials, and adds points to the study's course in the store."""

    def __init__(self, store: Store, record: StudyRecord) -> None:
        self._store, self._record = store, record
        self._finished: dict[str, Journal] = {}  # in order
        self._times: list[int] = []  # milliseconds

    def update(self, record: StudyRecord) -> None:
        """Replace the study's record: a search may have added trials."""
        self._record = record

    def finished(self, trial_id: str, journal: Journal) -> None:
        """Take in a trial's result."""
        if trial_id not in self._finished:
            self._times.append(round(1000 * time.time()))
        self._finished[trial_id] = journal

    def add_points(self) -> None:
        """Add the numbers of now, and of some of the trials that have finished since the last."""
        finished = list(self._finished.items())  # trials go on finishing in another thread
        points = course.read(self._store, self._record.key)
        last = points[-1].finished if points else 0
        numbers = _spread(last + 1, len(finished))
        new = [
            point_of(self._record, dict(finished[:number]), self._times[number - 1])
            for number in numbers
        ]
        if new := [point for point in new if point.arms]:
            course.add(self._store, self._record.key, new)


def _spread(first: int, last: int) -> list[int]:
    """At most `MOST_NEW` numbers from `first` to `last`, which is one of them."""
    step = max(1, math.ceil((last - first + 1) / MOST_NEW))
    return list(range(last, first - 1, -step))[::-1]


def point_of(record: StudyRecord, finished: Mapping[str, Journal], at: int) -> Point:
    """The numbers of a study's table, from its finished trials."""
    summary = Judged(record, finished)
    arms = (_numbers(arm, summary.split, summary.metric) for arm in summary.arms)
    verdicts = [arm.comparison.verdict for arm in summary.arms if arm.comparison is not None]
    return Point(
        finished=len(finished),
        at=at,
        decided=sum(verdict.decided for verdict in verdicts),
        arms=tuple(numbers for numbers in arms if numbers is not None),
    )


def _numbers(arm: ArmSummary, split: str, metric: Metric) -> ArmPoint | None:
    cell, comparison = arm.cells.get(split), arm.comparison
    if cell is None:
        return None
    of_one = comparison and metric.changes(comparison.difference.interval)
    low, high = of_one or (None, None)
    return ArmPoint(arm.name, cell.num, cell.mean, comparison and comparison.delta, low, high)
