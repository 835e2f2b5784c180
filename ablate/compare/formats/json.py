"""JSON: a list with one object for each row. The second of two columns `a` is `a_2`."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ablate.compare.formats import Table
from ablate.store.numbers import without_nan

EXACT = True


def write(table: Table) -> str:
    """Return the table's rows as a list of JSON objects, with all digits."""
    return written(rows_of(table))


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Return the table's rows, each by the names of its columns."""
    names = _numbered(table.headings)
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def written(value: Any) -> str:
    """Return a value as JSON: rows, or a dataclass of `ablate.commands._answers`."""
    # `str` is for DuckDB's other types, such as UUIDs.
    return json.dumps(_plain(value), indent=1, ensure_ascii=False, default=str)


def _numbered(headings: Sequence[str]) -> list[str]:
    """The headings, each once."""
    names: list[str] = []
    for heading in headings:
        # Also the numbered name may be taken: columns `a`, `a`, `a_2`.
        others = (f"{heading}_{number}" for number in itertools.count(2))
        free = (name for name in others if name not in (*headings, *names))
        names.append(next(free) if heading in names else heading)
    return names


def _plain(value: Any) -> Any:
    """A value that JSON can express: nan and inf as text, times in ISO 8601, keys as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    return [*map(_plain, value)] if isinstance(value, list | tuple) else without_nan(value)
