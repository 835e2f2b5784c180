"""CSV: a header and one row for each row, every number unrounded.

A spreadsheet runs text that starts with =, +, - or @ as a formula. Such text, which is no number,
has a ' in front.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from ablate.compare.formats import Table

EXACT = True
STARTS_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")


def write(table: Table) -> str:
    """Return the table as CSV, with all digits."""
    return "\n".join(_line(row) for row in (table.headings, *table.rows))


def _line(row: Sequence[Any]) -> str:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(map(_as_data, row))  # None is an empty field
    return line.getvalue().removesuffix("\r\n")


def _as_data(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(STARTS_FORMULAS):
        return cell
    try:  # "-0.5" is a number, and no formula
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
