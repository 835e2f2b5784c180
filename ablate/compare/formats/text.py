"""Plain text for a terminal: aligned columns, as wide as the terminal, with or without Unicode.

No word or number is broken. What does not fit is laid out otherwise: drawings and columns that say
so give way; texts wrap; then a table is split into parts below each other, each with every column
that names the rows; and where even these and one more column are too wide, every row is a list of
its values.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from ablate.compare.formats import BEST, Best, Column, Drawn, Table, text_of
from ablate.compare.text.drawing import axis, drawn
from ablate.compare.text.plain import display_width, paragraph, printable

WIDTH = 100  # of files and pipes
LEAST, MOST = 60, 200  # of terminals
UNLIMITED = 10_000  # columns where programs read a line as a whole
MARK = "*"
GAP = "  "
NARROW, BROAD = 13, 25  # columns of a drawing
COMFORTABLE = 16  # a table is split before a column that wraps is narrower than this


def terminal_width(otherwise: int = WIDTH) -> int:
    """The columns of $COLUMNS or of the terminal; `otherwise` where output is neither."""
    if not os.environ.get("COLUMNS", "").isdigit() and not sys.stdout.isatty():
        return otherwise
    return min(max(shutil.get_terminal_size((WIDTH, 24)).columns, LEAST), MOST)


def write(table: Table, width: int | None = None, unicode: bool = True) -> str:
    """The table as wide as the terminal, or `width` columns; in ASCII if `unicode` is false."""
    width = terminal_width() if width is None else width

    def wrapped(texts: Iterable[str]) -> list[str]:
        marked = (text.replace(BEST, MARK) for text in texts)
        return [x for text in marked for x in paragraph(printable(text, unicode), width, GAP)]

    rule = "─" if unicode and table.title else "-"
    further = (_fitted(_as_text(other, unicode), width, unicode) for other in table.further)
    sections = [
        wrapped([": ".join(filter(None, [table.title, table.question])), *table.settings]),
        [
            *_lines(_fitted(_as_text(table, unicode), width, unicode), width, rule),
            *wrapped(table.below),
            *wrapped(table.warnings),
        ],
        wrapped([*table.answer, *table.notes, *table.cautions]),
        *(
            [*wrapped([other.title]), *_lines(other, width, rule), *wrapped(other.notes)]
            for other in further
        ),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def lines(table: Table, width: int | None = None, rule: str = "-") -> list[str]:
    """The headings and rows alone."""
    return _lines(_as_text(table), terminal_width() if width is None else width, rule)


def sentences(texts: Iterable[str]) -> list[str]:
    """Texts wrapped to the terminal; in files and pipes each is one line."""
    width = terminal_width(UNLIMITED)
    return [line for text in texts for line in paragraph(text, width, GAP) or [""]]


def aligned(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None
) -> list[str]:
    """Every column to the left; all but the first wrap."""
    columns = [Column(text, left=True, wraps=i > 0) for i, text in enumerate(headings)]
    return lines(Table(columns, rows), width)


def _as_text(table: Table, unicode: bool = True) -> Table:
    """The table with nothing but printable text in its headings and cells."""

    def heading(text: str) -> str:
        return "\n".join(printable(line, unicode) for line in text.split("\n"))

    def cell(value: object) -> Any:
        if isinstance(value, Drawn):
            return value
        mark = MARK if isinstance(value, Best) else ""
        return mark + printable(text_of(value), unicode)

    columns = [replace(column, heading=heading(column.heading)) for column in table.columns]
    return replace(table, columns=columns, rows=[[*map(cell, row)] for row in table.rows])


def _fitted(table: Table, width: int, unicode: bool) -> Table:
    """The table with drawings as wide as there is room, or without them and what else gives way."""
    texts = table.without_drawings()
    at = next((i for i, column in enumerate(table.columns) if column.drawn), None)
    if at is not None and (room := width - _natural_width(texts) - len(GAP)) >= NARROW:
        return _with_drawings(table, at, min(room, BROAD), unicode)
    spare = sorted(column.spare for column in texts.columns if column.spare)
    for first in spare:
        if _natural_width(texts) > width:
            texts = texts.only([i for i, c in enumerate(texts.columns) if c.spare != first])
    return texts


def _natural_width(table: Table) -> int:
    widths = _widths(table)
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _with_drawings(table: Table, at: int, room: int, unicode: bool) -> Table:
    """The table, with the drawings of its column `at` as text that is `room` characters wide."""
    num = room - 1 + room % 2  # odd: 0 is in the middle
    cells = [row[at] for row in table.rows]
    shown = [drawn(cell, num, unicode) if isinstance(cell, Drawn) else "" for cell in cells]
    rows = [[*row[:at], cell, *row[at + 1 :]] for row, cell in zip(table.rows, shown, strict=True)]
    heading = next((axis(cell, num, unicode) for cell in cells if isinstance(cell, Drawn)), "")
    columns = [*table.columns]
    columns[at] = replace(columns[at], heading=heading)
    return replace(table, columns=columns, rows=rows)


def _lines(table: Table, width: int, rule: str) -> list[str]:
    """Headings, rule and rows, in as many parts as `width` needs; a blank line between parts."""
    if not table.columns:
        return []
    parts = _parts(table, width)
    if parts is None:
        return [*_listed(table, width, rule)]
    laid_out = [_part(table.only(part), width, rule) for part in parts]
    return [line for i, part in enumerate(laid_out) for line in ([""] if i else []) + part]


def _parts(table: Table, width: int) -> list[list[int]] | None:
    """The columns of each part, the row names in all of them; None if a column does not fit beside
    the names.

    The first part has the columns that belong together, and others as far as there is room.
    """
    least, names = _least(table), _names(table)
    others = [i for i in range(len(least)) if i not in names]
    alone = [[*names, i] for i in others] or [names]
    if not all(_fits(least, part, width) for part in alone):
        return None
    if _fits(least, range(len(least)), width):
        return [[*range(len(least))]]
    together = [i for i in others if table.columns[i].first == 1]
    if len(names) == 1:  # it wraps for what belongs together, but not for further columns
        room = width - sum(least[i] + len(GAP) for i in together) if together else width // 2
        least[names[0]] = min(_widths(table)[names[0]], max(least[names[0]], room))
    parts = [names]
    apart, first = (
        [getattr(column, name) for column in table.columns] for name in ("apart", "first")
    )
    rest = sorted(set(others) - {*together}, key=lambda i: (apart[i], first[i] != 2, i))
    for i in [*together, *rest]:
        part = parts[-1]
        if part != names and (apart[i] != apart[part[-1]] or not _fits(least, [*part, i], width)):
            parts.append(names)
        parts[-1] = [*parts[-1], i]
    return [sorted(part) for part in parts]


def _names(table: Table) -> list[int]:
    """The columns that name the rows: those declared, else the first and what else tells them
    apart."""
    declared = [i for i, column in enumerate(table.columns) if column.names]
    return declared or _telling_apart(table)


def _telling_apart(table: Table) -> list[int]:
    """The first column, and each further one that tells rows apart which those before do not.

    Columns of text come before numbers, by which nobody recognizes a row.
    """
    further = sorted(range(1, len(table.columns)), key=lambda i: not table.columns[i].left)
    names, num = [0], len({row[0] for row in table.rows})
    for i in further:
        if num == len(table.rows):
            break
        with_it = len({tuple(row[n] for n in (*names, i)) for row in table.rows})
        if with_it > num:
            names, num = [*names, i], with_it
    return sorted(names)


def _fits(least: Sequence[int], columns: Iterable[int], width: int) -> bool:
    return sum(least[i] + len(GAP) for i in columns) - len(GAP) <= width


def _part(table: Table, width: int, rule: str) -> list[str]:
    """Headings, rule and rows; some columns wrap into what the others leave of `width`."""
    widths, least, wrapping = _widths(table), _least(table), _wrapping(table)
    gaps = len(GAP) * (len(widths) - 1)
    while sum(widths) + gaps > width:
        widest = max(wrapping, key=lambda i: (widths[i] > least[i], widths[i]))
        if widths[widest] <= least[widest]:
            break
        widths[widest] -= 1
    left = [column.left for column in table.columns]
    headings = [column.heading.split("\n") for column in table.columns]
    for index in wrapping:
        headings[index] = [x for line in headings[index] for x in paragraph(line, widths[index])]
    lines = [*_row(headings, widths, left, bottom=True), rule * (sum(widths) + gaps)]
    for row in table.rows:
        cells = [[cell] for cell in row]
        for index in wrapping:
            cells[index] = paragraph(row[index], widths[index]) or [""]
        lines += _row(cells, widths, left)
    return lines


def _listed(table: Table, width: int, rule: str) -> Iterator[str]:
    """Every row as a list: its name, and below it each heading with its value."""
    yield from paragraph(", ".join(table.headings), width) if not table.rows else []
    for at, row in enumerate(table.rows):
        name, *values = [f"{heading}: {x}" for heading, x in zip(table.headings, row, strict=True)]
        names = paragraph(name, width, GAP)
        yield from [*([""] if at else []), *names, rule * max(map(display_width, names))]
        for value in values:
            yield from (GAP + line for line in paragraph(value, width - len(GAP), GAP))


def _widths(table: Table) -> list[int]:
    """The width of each column if nothing wraps."""
    return [max(map(display_width, texts)) for texts in _texts(table)]


def _least(table: Table) -> list[int]:
    """The least width of each column: one that wraps gives way down to its longest word."""
    widths, wrapping = _widths(table), set(_wrapping(table))
    words = [
        max((display_width(w) for t in ts for w in t.split()), default=0) for ts in _texts(table)
    ]
    return [
        max(words[i], min(COMFORTABLE, width)) if i in wrapping else width
        for i, width in enumerate(widths)
    ]


def _texts(table: Table) -> list[list[str]]:
    headings = (column.heading.split("\n") for column in table.columns)
    return [[*heading, *(row[i] for row in table.rows)] for i, heading in enumerate(headings)]


def _wrapping(table: Table) -> list[int]:
    """The columns that wrap; row names are among them."""
    names = _names(table)
    return [i for i, column in enumerate(table.columns) if column.wraps or i in names]


def _row(
    cells: Sequence[list[str]], widths: Sequence[int], left: Sequence[bool], bottom: bool = False
) -> list[str]:
    """One row of cells of one or more lines, aligned at the top or at the bottom."""
    step = -1 if bottom else 1
    lines = [*zip_longest(*(cell[::step] for cell in cells), fillvalue="")][::step]
    return [GAP.join(map(_padded, line, widths, left)).rstrip() for line in lines]


def _padded(text: str, width: int, left: bool) -> str:
    space = " " * max(0, width - display_width(text))
    return text + space if left else space + text
