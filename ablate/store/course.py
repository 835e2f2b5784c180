"""How a study's numbers came about: those of its table, by the number of finished trials.

studies/<key>/results/course.json   points; every other one is left out where they are too many
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ablate.config import typed
from ablate.errors import DamagedError
from ablate.store.store import Store

MOST, FEWEST = 200, 20  # points of a study of few arms, and of very many
NUMBERS = 10_000  # arms in all points together


@dataclass(frozen=True)
class ArmPoint:
    """An arm's numbers, in the table's unit. Without a comparison there is no difference."""

    arm: str
    seeds: int
    mean: float
    difference: float | None = None
    low: float | None = None  # ends of the difference's interval
    high: float | None = None


@dataclass(frozen=True)
class Point:
    """A study's numbers when some of its trials had finished."""

    finished: int
    at: int  # milliseconds
    decided: int  # comparisons
    arms: tuple[ArmPoint, ...]  # those that have results

    @cached_property
    def by_arm(self) -> dict[str, ArmPoint]:
        """The arms' numbers by name."""
        return {numbers.arm: numbers for numbers in self.arms}


@dataclass(frozen=True)
class _Course:
    points: tuple[Point, ...] = ()


def read(store: Store, study_key: str) -> tuple[Point, ...]:
    """The points of a study, in order; none of studies that older versions ran.

    A damaged file costs charts, and no trial's record: it has none, and is written again.
    """
    try:
        return typed.read(_Course, store.read_json(_key(study_key)) or {}).points
    except (typed.Wrong, DamagedError):
        return ()


def add(store: Store, study_key: str, new: Sequence[Point]) -> None:
    """Add points of more finished trials than those that are there."""
    points = read(store, study_key)
    reached = points[-1].finished if points else 0
    points = (*points, *(point for point in new if point.finished > reached))
    most = max(FEWEST, min(MOST, NUMBERS // max(1, len(points[-1].arms)))) if points else MOST
    while len(points) > most:
        points = (*points[:-1:2], points[-1])
    store.write_json(_key(study_key), dataclasses.asdict(_Course(points)))


def _key(study_key: str) -> str:
    return f"studies/{study_key}/results/course.json"
