"""Plain text for a terminal: aligned columns, as wide as allowed, with or without Unicode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

from ablate.compare.formats import BEST, Best, Column, Table, text_of
from ablate.compare.text.plain import NARROWEST, display_width, paragraph, printable

WIDTH = 100
MARK = "*"
GAP = "  "
COMFORTABLE = 16  # columns are dropped before the one that wraps is narrower than this


def write(table: Table, width: int = WIDTH, unicode: bool = True) -> str:
    """The table `width` columns wide; in ASCII if `unicode` is false."""

    def wrapped(texts: Iterable[str]) -> list[str]:
        marked = (text.replace(BEST, MARK) for text in texts)
        return [x for text in marked for x in paragraph(printable(text, unicode), width, GAP)]

    rule = "─" if unicode and table.title else "-"
    fitting, dropped = _fitted(_as_text(table, unicode), width)
    note = [f"Left out to fit {width} columns: {', '.join(dropped)}."] if dropped else []
    further = (_as_text(other, unicode) for other in table.further)
    sections = [
        wrapped([table.title, table.question]),
        wrapped(table.settings),
        [*_lines(fitting, width, rule), *wrapped(table.below), *wrapped(table.warnings)],
        wrapped([*table.notes, *note, *table.cautions]),
        *(
            [*wrapped([other.title]), *_lines(other, width, rule), *wrapped(other.notes)]
            for other in further
        ),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def lines(table: Table, width: int = WIDTH) -> list[str]:
    """The headings and rows alone."""
    return _lines(_as_text(table), width, "-")


def aligned(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int = WIDTH
) -> list[str]:
    """Every column to the left, the last one wrapped."""
    last = len(headings) - 1
    columns = [Column(text, left=True, wraps=i == last) for i, text in enumerate(headings)]
    return lines(Table(columns, rows), width)


def _as_text(table: Table, unicode: bool = True) -> Table:
    """The table with nothing but printable text in its headings and cells."""

    def heading(text: str) -> str:
        return "\n".join(printable(line, unicode) for line in text.split("\n"))

    def cell(value: object) -> str:
        mark = MARK if isinstance(value, Best) else ""
        return mark + printable(text_of(value), unicode)

    columns = [replace(column, heading=heading(column.heading)) for column in table.columns]
    return replace(table, columns=columns, rows=[[*map(cell, row)] for row in table.rows])


def _fitted(table: Table, width: int) -> tuple[Table, list[str]]:
    """The table without the columns that do not fit, and the headings of these."""
    columns, widths = table.columns, _widths(table)
    # Columns that wrap give way before any other is dropped.
    wrapped_away = sum(max(0, widths[i] - COMFORTABLE) for i in _wrapping(table))
    remaining, dropped = list(range(len(columns))), []
    for _, index in sorted((c.drop, i) for i, c in enumerate(columns) if c.drop is not None):
        if sum(widths[i] + len(GAP) for i in remaining) - len(GAP) - wrapped_away <= width:
            break
        remaining.remove(index)
        dropped.append(table.headings[index])
    rows = [[row[i] for i in remaining] for row in table.rows]
    return replace(table, columns=[columns[i] for i in remaining], rows=rows), dropped


def _lines(table: Table, width: int, rule: str) -> list[str]:
    """Headings, rule and rows; some columns wrap into what the others leave of `width`."""
    if not table.columns:
        return []
    widths, wrapping = _widths(table), _wrapping(table)
    gaps = len(GAP) * (len(widths) - 1)
    while sum(widths) + gaps > width:
        widest = max(wrapping, key=widths.__getitem__)
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    left = [column.left for column in table.columns]
    headings = [column.heading.split("\n") for column in table.columns]
    lines = [*_row(headings, widths, left, bottom=True), rule * (sum(widths) + gaps)]
    for row in table.rows:
        cells = [[cell] for cell in row]
        for index in wrapping:
            cells[index] = paragraph(row[index], widths[index]) or [""]
        lines += _row(cells, widths, left)
    return lines


def _widths(table: Table) -> list[int]:
    headings = (column.heading.split("\n") for column in table.columns)
    texts = [[*heading, *(row[i] for row in table.rows)] for i, heading in enumerate(headings)]
    return [max(map(display_width, column)) for column in texts]


def _wrapping(table: Table) -> list[int]:
    return [i for i, column in enumerate(table.columns) if column.wraps] or [0]


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
