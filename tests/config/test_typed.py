"""What is read from a file fits the fields that it fills, or is refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest

from ablate.config import typed
from ablate.config.metrics import Metric


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    x: float
    y: int = 0


@dataclass(frozen=True)
class Shape:
    name: str
    colour: Colour
    points: tuple[Point, ...]
    rows: tuple[tuple[int, ...], ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    note: str | None = None
    value: float | str | None = None
    centre: Point | None = None
    filled: bool = False
    metric: Metric | None = None


PLAIN: dict[str, Any] = {"name": "a", "colour": "red", "points": [{"x": 1}, {"x": 2.5, "y": 3}]}


def test_plain_data_become_what_their_fields_say():
    shape = typed.read(Shape, {**PLAIN, "rows": [[1, 2], []], "centre": {"x": 0.5}, "value": "nan"})
    assert shape.points == (Point(1), Point(2.5, 3)) and shape.rows == ((1, 2), ())
    assert shape.colour is Colour.RED and shape.centre == Point(0.5) and shape.value == "nan"
    assert typed.read(Shape, {**PLAIN, "note": None, "value": None}).note is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 7}, "name is a whole number, and must be a text"),
        ({"name": None}, "name is null, and must be a text"),
        ({"colour": "green"}, "colour is 'green', and must be one of: red, blue"),
        ({"colour": []}, "colour is '[]', and must be one of: red, blue"),
        ({"points": "ab"}, "points is a text, and must be a list"),
        ({"points": ["ab"]}, r"points[0] is a text, and must be a mapping"),
        ({"points": [{"x": 1}, {"x": "1"}]}, r"points[1].x is a text, and must be a number"),
        ({"points": [{"y": 1}]}, r"points[0] has no x"),
        ({"points": [{"x": 1, "y": True}]}, r"points[0].y is true or false, and must be a whole"),
        ({"points": [{"x": 1, "z": 1}]}, r"points[0] has a field 'z', which this version does not"),
        ({"rows": [[1], [2, "3"]]}, r"rows[1][1] is a text, and must be a whole number"),
        ({"about": "x"}, "about is a text, and must be a mapping"),
        ({"about": [["a", 1]]}, "about is a list, and must be a mapping"),
        ({"sizes": {"s": "big"}}, "sizes.s is a text, and must be a number"),
        ({"note": 1.5}, "note is a number, and must be a text"),
        ({"value": []}, "value is a list, and must be "),
        ({"centre": 3}, "centre is a whole number, and must be a mapping or null"),
        ({"centre": {"x": "1"}}, "centre.x is a text, and must be a number"),
        ({"filled": "yes"}, "filled is a text, and must be true or false"),
        ({"metric": {"name": ""}}, "metric: Metric: name = '' is not allowed"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(typed.Wrong) as error:
        typed.read(Shape, {**PLAIN, **change})
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("plain", [None, [], "x", 7])
def test_what_is_no_mapping_is_no_record(plain):
    with pytest.raises(typed.Wrong, match=r"^is .*, and must be a mapping$"):
        typed.read(Shape, plain)


def test_only_keys_that_are_known_are_checked():
    rows_of = typed.rows_of({"a": int, "b": str | None})
    rows = [{"a": 1, "c": object()}, {}]
    assert rows_of(rows) == rows
    with pytest.raises(
        typed.Wrong, match=r"^\[1\]\.b is a whole number, and must be a text or null$"
    ):
        rows_of([{}, {"b": 1}])
    with pytest.raises(typed.Wrong, match=r"^\[0\] is a list, and must be a mapping$"):
        rows_of([[]])
