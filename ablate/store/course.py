"""How a study's numbers came about: those of its table, by the number of finished trials.

studies/<key>/results/course.json   points; every other one is left out where they are too many
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ablate.config import typed
from ablate.store.store import Store, damaged

MOST, FEWEST = 200, 20  # points of a study of few arms, and of very many
NUMBERS = 10_000  # arms in all points together


@dataclass(frozen=True)
class ArmPoint:
    """An arm's numbers, in the table's unit. Without a comparison there is no difference."""

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
    arms: Mapping[str, ArmPoint]


@dataclass(frozen=True)
class _Course:
    points: tuple[Point, ...] = ()


def read(store: Store, study_key: str) -> tuple[Point, ...]:
    """The points of a study, in order; none of studies that older versions ran."""
    plain = store.read_json(_key(study_key)) or {}
    try:
        return typed.read(_Course, plain).points
    except typed.Wrong as error:
        raise damaged(store, _key(study_key), str(error)) from error


def add(store: Store, study_key: str, point: Point) -> None:
    """Add a point, unless there is one of as many finished trials, or of more."""
    points = read(store, study_key)
    if points and points[-1].finished >= point.finished:
        return
    points = (*points, point)
    if len(points) > max(FEWEST, min(MOST, NUMBERS // max(1, len(point.arms)))):
        points = (*points[:-1:2], point)
    store.write_json(_key(study_key), dataclasses.asdict(_Course(points)))


def _key(study_key: str) -> str:
    return f"studies/{study_key}/results/course.json"
