"""A table is built once, and written by one writer for each format.

A writer is a file of this folder: `write(table)` returns the text, and the file's name is the
format's. A writer with `EXACT = True` (CSV, JSON) writes values rather than text: the columns and
rows of a table alone, every number unrounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

BEST = "{best}"  # in a note: each writer puts the mark that it gives to the best cell


@dataclass(frozen=True)
class Column:
    """A column: its heading (of one line or two), what is in it, and how it is set.

    Programs get the columns that have a name, and the values themselves.
    """

    heading: str = ""
    of: Callable[[Any], Any] = str  # its value, from what a row is about
    text: Callable[[Any], Any] | None = None  # the value as people read it
    name: str = ""
    left: bool = False  # aligned left
    wraps: bool = False  # shares the width that the others leave, as the first column does
    names: bool = False  # names its row, with the other such columns; none: `text.py` finds them
    first: int = 0  # of a table that is split, 1: in its first part; 2: there if there is room
    apart: bool = False  # of a table that is split: in a part with other such columns alone
    drawn: bool = False  # its cells are `Drawn`: only text and HTML have it
    spare: int = 0  # left out where a line of text is too narrow: 1 first; 0: never

    def about(self, part: Callable[[Any], Any]) -> Column:
        """The column for a table whose rows hold its subject as a part, or None."""
        return replace(self, of=lambda row: None if (it := part(row)) is None else self.of(it))

    def shown(self, row: Any) -> Any:
        """What people read of a row: nothing, where there is no value."""
        value = self.of(row)
        return "" if value is None else self.text(value) if self.text else value


@dataclass(frozen=True)
class Best:
    """A cell that is marked as the best of its column."""

    text: str


@dataclass(frozen=True)
class Drawn:
    """A difference with its interval, to be drawn on an axis from -reach to reach.

    Nothing is below -100%, so a change in percent that reaches farther is on an axis of ratios.
    """

    reach: float
    unit: str
    centre: float | None = None  # none: the row that others are compared with
    ends: tuple[float, float] | None = None
    is_decided: bool = False  # what the verdict says
    pairs: tuple[float, ...] = ()  # the difference of each: only HTML has room for them

    @property
    def ends_of_axis(self) -> tuple[str, str]:
        """Both ends of the axis, as text."""
        if self._is_of_ratios:
            ratio = f"{1 + self.reach / 100:g}"
            return f"÷{ratio}", f"×{ratio}"
        return f"−{self.reach:g}{self.unit}", f"+{self.reach:g}{self.unit}"

    def place(self, value: float) -> float:
        """Where a difference is on the axis, which goes from -1 to 1."""
        if not self._is_of_ratios:
            return value / self.reach
        if value <= -100:
            return -math.inf
        return math.log1p(value / 100) / math.log1p(self.reach / 100)

    @property
    def _is_of_ratios(self) -> bool:
        return self.unit == "%" and self.reach > 100


@dataclass(frozen=True)
class Table:
    """Columns and rows, and what is written around them. A cell is a value or a `Best`."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    question: str = ""
    settings: Sequence[str] = ()  # above the rows
    below: Sequence[str] = ()  # results that are not rows, right below these
    warnings: Sequence[str] = ()  # to be seen before any number is believed
    answer: Sequence[str] = ()  # what the rows say
    notes: Sequence[str] = ()  # how to read the table
    cautions: Sequence[str] = ()
    further: Sequence[Table] = ()  # smaller tables, below the notes
    reference: str = ""  # leads back to the trials behind the table

    def rows_alone(self) -> Table:
        """The table without a word around it."""
        return Table(self.columns, self.rows)

    def without_drawings(self) -> Table:
        """The table for a format that has only text and numbers."""
        return self.only([i for i, column in enumerate(self.columns) if not column.drawn])

    def only(self, chosen: Sequence[int]) -> Table:
        """The table with these of its columns."""
        rows = [[row[i] for i in chosen] for row in self.rows]
        return replace(self, columns=[self.columns[i] for i in chosen], rows=rows)

    @property
    def headings(self) -> list[str]:
        """The headings, each on one line."""
        return [column.heading.replace("\n", " ") for column in self.columns]

    def small_print(self, mark: str) -> list[str]:
        """The notes of this table and of the tables below it; `mark` is given to the best cell."""
        further = (note for table in self.further for note in table.notes)
        notes = [*self.below, *self.answer, *self.notes, *self.cautions, *further]
        return [note.replace(BEST, mark) for note in notes]


def for_people(columns: Sequence[Column], rows: Iterable[Any], **more: Any) -> Table:
    """A table from what each of its rows is about."""
    columns = [column for column in columns if column.heading]
    return Table(columns, [[column.shown(row) for column in columns] for row in rows], **more)


def for_programs(columns: Sequence[Column], rows: Iterable[Any]) -> Table:
    """A table of values, of the columns that have a name."""
    named = [column for column in columns if column.name]
    values = [[column.of(row) for column in named] for row in rows]
    return table_of_values([column.name for column in named], values)


def table_of(
    headings: Sequence[str], rows: Sequence[Sequence[Any]], left: Container[str] = (), **more: Any
) -> Table:
    """A table whose first column is aligned left, as are those named in `left`."""
    columns = [Column(h, left=index == 0 or h in left) for index, h in enumerate(headings)]
    return Table(columns, rows, **more)


def table_of_values(headings: Sequence[str], rows: Sequence[Sequence[Any]], **more: Any) -> Table:
    """A table whose columns of numbers are aligned right, and all others left."""
    kinds = [{type(row[i]) for row in rows} - {type(None)} for i in range(len(headings))]
    columns = [
        Column(heading, left=not types or not types <= {int, float})
        for heading, types in zip(headings, kinds, strict=True)
    ]
    return Table(columns, rows, **more)


def text_of(cell: Any) -> str:
    """A cell as text: numbers to six digits, nothing for None."""
    if cell is None or isinstance(cell, Drawn):
        return ""
    if isinstance(cell, Best):
        return cell.text
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def names() -> list[str]:
    """Every format; imports no writer."""
    files = (file.stem for file in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in files if not name.startswith("_"))


def writer(name: str) -> ModuleType:
    """Return the module that writes a format."""
    return import_module(f"{__name__}.{name}")


def is_exact(name: str) -> bool:
    """Return whether a format has values rather than text."""
    return getattr(writer(name), "EXACT", False)
