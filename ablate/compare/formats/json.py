"""JSON: a list with one object for each row."""

from __future__ import annotations

import datetime
import json
from typing import Any

from ablate.compare.formats import Table
from ablate.store.numbers import without_nan

EXACT = True


def write(table: Table) -> str:
    rows = [dict(zip(table.headings, map(_plain, row), strict=True)) for row in table.rows]
    return json.dumps(rows, indent=1, ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    """A value that JSON can express: nan and inf as text, times in ISO 8601."""
    dated = isinstance(value, datetime.datetime | datetime.date)
    return value.isoformat() if dated else without_nan(value)
