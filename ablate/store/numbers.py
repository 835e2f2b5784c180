"""Plain data in files and databases: what JSON and UTF-8 cannot express.

NaN and infinities are strings. A lone surrogate, as Python makes of a file name that is not UTF-8,
is a question mark in a database.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NOT_FINITE = ("nan", "inf", "-inf")
LEAVES = (str, int, bool, type(None))  # most data, looked at first: a mapping is slow to tell


def number(value: Any) -> float | None:
    """The number that a stored value stands for, or None."""
    if type(value) is float:  # most are
        return value
    if isinstance(value, bool):
        return None
    return float(value) if isinstance(value, int | float) or value in NOT_FINITE else None


def finite(value: Any) -> float | None:
    """The finite number that a stored value stands for, or None."""
    parsed = number(value)
    return parsed if parsed is not None and math.isfinite(parsed) else None


def without_nan(data: Any) -> Any:
    """The same plain data with NaN and infinities as strings."""
    if type(data) in LEAVES:
        return data
    if isinstance(data, float):
        return data if math.isfinite(data) else str(data)
    if isinstance(data, list | tuple):
        return [without_nan(item) for item in data]
    if isinstance(data, Mapping):
        return {name: without_nan(value) for name, value in data.items()}
    return data


def in_utf8(data: Any) -> Any:
    """The same plain data with a question mark for what UTF-8 lacks."""
    if isinstance(data, str):
        return data if data.isascii() else data.encode(errors="replace").decode()
    if type(data) in LEAVES:
        return data
    if isinstance(data, list | tuple):
        return [in_utf8(item) for item in data]
    if isinstance(data, Mapping):
        return {in_utf8(name): in_utf8(value) for name, value in data.items()}
    return data
