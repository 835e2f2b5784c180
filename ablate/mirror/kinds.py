"""One type for each column, from values that were recorded as text.

Whole numbers stay whole; a column that has both kinds of numbers has fractions; one that has a
number here and a list or a name there (`head.experts`: 15, or [15, 5, 0, 0]) keeps the texts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

WHOLE, NUMBER, TRUTH, TEXT = "BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR"
LARGEST_WHOLE = 2**63 - 1
_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|nan|[+-]?inf")
_TRUTHS = {"True": True, "False": False}


def value_of(text: str) -> Any:
    """The value that was recorded as this text."""
    if text == "None":
        return None
    if text in _TRUTHS:
        return _TRUTHS[text]
    if _WHOLE.fullmatch(text) and abs(int(text)) <= LARGEST_WHOLE:
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def kind_of(texts: Iterable[str]) -> str | None:
    """The type of a column of such texts; None where nothing says what it is."""
    kind = None
    for text in set(texts):
        kind = united(kind, _kind(value_of(text)))
    return kind


def united(one: str | None, other: str | None) -> str | None:
    """The type that holds the values of both."""
    if one is None or other is None or one == other:
        return one or other
    return NUMBER if {one, other} == {WHOLE, NUMBER} else TEXT


def _kind(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return TRUTH
    return WHOLE if isinstance(value, int) else NUMBER if isinstance(value, float) else TEXT


def line(row: dict[str, Any]) -> str:
    """A row as a line of JSON. What JSON has no word for, DuckDB reads from text."""
    return json.dumps({k: _plain(v) for k, v in row.items() if v is not None}, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
