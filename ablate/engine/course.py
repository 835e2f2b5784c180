"""The numbers of a study's table as its trials finish, for the charts of the records."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ablate.compare.table.rows import ArmSummary
from ablate.compare.table.summary import summarise
from ablate.store import course
from ablate.store.course import ArmPoint, Point
from ablate.store.journal import Journal
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord


class Course:
    """Collects finished trials, and adds points to the study's course in the store."""

    def __init__(self, store: Store, record: StudyRecord) -> None:
        self._store, self._record = store, record
        self._finished: dict[str, Journal] = {}

    def update(self, record: StudyRecord) -> None:
        """Replace the study's record: a search may have added trials."""
        self._record = record

    def finished(self, trial_id: str, journal: Journal) -> None:
        """Take in a trial's result."""
        self._finished[trial_id] = journal

    def add_point(self) -> None:
        """Add the numbers of now, if any arm has some."""
        finished = dict(self._finished)  # trials go on finishing in another thread
        point = point_of(self._record, finished)
        if point.arms:
            course.add(self._store, self._record.key, point)


def point_of(record: StudyRecord, finished: Mapping[str, Journal]) -> Point:
    """The numbers of a study's table, from its finished trials."""
    summary = summarise(record, finished)
    arms = {arm.name: _numbers(arm, summary.split) for arm in summary.arms}
    verdicts = [arm.comparison.verdict for arm in summary.arms if arm.comparison is not None]
    return Point(
        finished=len(finished),
        at=round(1000 * time.time()),
        decided=sum(verdict.decided for verdict in verdicts),
        arms={name: numbers for name, numbers in arms.items() if numbers is not None},
    )


def _numbers(arm: ArmSummary, split: str) -> ArmPoint | None:
    cell, comparison = arm.cells.get(split), arm.comparison
    if cell is None:
        return None
    low, high = (comparison and comparison.interval) or (None, None)
    return ArmPoint(cell.num, cell.mean, comparison and comparison.delta, low, high)
