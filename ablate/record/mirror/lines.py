"""Rows as lines of JSON, which DuckDB reads faster than inserted rows, and their columns' types.

A column of integers has an integer type, a column of integers and floats a float type; a column
that mixes numbers with lists or names (`head.experts`: 15, or [15, 5, 0, 0]) is text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from ablate.results.facts import NUMBER, TEXT, TRUTH, WHOLE
from ablate.results.rows import Recorded, Row
from ablate.store.numbers import number, without_nan

LARGEST_WHOLE = 2**63 - 1  # of DuckDB's BIGINT
LONGEST = 50_000  # values in a line: DuckDB reads lines of 16 MB
ENCODED = json.JSONEncoder(allow_nan=False).encode


def kind_of(value: Any) -> str | None:
    """The type of a column with this value."""
    if value is None or isinstance(value, bool):
        return None if value is None else TRUTH
    if isinstance(value, int) and abs(value) <= LARGEST_WHOLE:
        return WHOLE
    return TEXT if number(value) is None else NUMBER


def common_kind(one: str | None, other: str | None) -> str:
    """The type that can hold the values of both."""
    if one is None or other is None or one == other:
        return one or other or TEXT
    return NUMBER if {one, other} == {WHOLE, NUMBER} else TEXT


def _as_text(value: Any) -> Any:
    """A truth value as Python writes it, since its column may be one of text."""
    return str(value) if isinstance(value, bool) else value


def trial_line(run: Recorded, generation: int) -> Row:
    parts = run.trial or {}
    config = {name: _as_text(value) for name, value in parts["config"].items()}
    key = {"run_id": run.run_id, "generation": generation}
    return {**config, **parts["facts"], **parts["results"], **key}


def epoch_lines(run: Recorded, generation: int) -> Iterator[Row]:
    """A trial's epochs, in lines of a limited length."""
    columns = run.epochs
    num, step = len(columns.get("epoch", ())), max(1, LONGEST // max(1, len(columns)))
    key = {"run_id": run.run_id, "generation": generation}
    for first in range(0, num, step):
        yield {**{name: some[first : first + step] for name, some in columns.items()}, **key}


def line(row: Row) -> str:
    """A row as a line of JSON. NaN and infinity become text, which DuckDB reads as numbers."""
    try:
        return ENCODED(row)
    except ValueError:  # looking for NaN in a million rows takes longer than a second try for few
        return ENCODED(without_nan(row))


def write(
    rows: Iterable[dict[str, Any]], file: TextIO, known: Iterable[str], numbers: dict[str, str]
) -> None:
    """Write rows as JSON lines; add columns that are not known to `numbers`.

    SQL ignores case: names that differ only in it are one column, as it was first written.
    """
    spelled = spellings((*numbers, *known))
    columns: dict[str, str] = {}  # of the rows' names: most of a million rows have the same
    for row in rows:
        for name in (name for name in row if name not in columns):
            columns[name] = column = spelled.setdefault(name.lower(), name)
            numbers |= {} if column in known else {column: NUMBER}
        values = {columns[name]: value for name, value in row.items() if value is not None}
        file.write(f"{line(values)}\n")


def spellings(columns: Iterable[str]) -> dict[str, str]:
    return {name.lower(): name for name in columns}
