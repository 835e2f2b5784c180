"""Plain text in columns: aligned, as wide as it may be, with or without unicode."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

GAP = "  "
NARROWEST = 10  # columns that a wrapped first column keeps
ASCII = {"±": "+-", "−": "-", "Δ": "delta", "·": "-", "×": "x", "–": "-", "…": "..."}


@dataclass(frozen=True)
class Grid:
    """A header of one or two lines, rows of text, and which columns may be left out, first first.

    The first column is aligned left and wrapped where it must be, the others are aligned right
    but for those in `left`.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    expendable: Sequence[str] = ()
    left: Sequence[str] = ()

    def fitted(self, width: int, comfortable: int = 16) -> tuple[Grid, list[str]]:
        """The grid without the columns that `width` has no room for, and what these are called."""
        grid, left_out = self, []
        for title in self.expendable:
            if grid.width(comfortable) <= width:
                break
            if title in grid.titles:
                grid = grid.without(title)
                left_out.append(title)
        return grid, left_out

    def without(self, title: str) -> Grid:
        place = list(self.titles).index(title)
        rows = [[*row[:place], *row[place + 1 :]] for row in self.rows]
        return Grid([t for t in self.titles if t != title], rows, self.expendable, self.left)

    def width(self, first_at_most: int) -> int:
        first, *others = self._widths()
        return min(first, first_at_most) + sum(len(GAP) + other for other in others)

    def lines(self, width: int, rule: str) -> list[str]:
        """Header, rule and rows; the first column takes what the others leave of `width`."""
        first, *others = self._widths()
        room = width - sum(len(GAP) + other for other in others)
        widths = [max(min(first, room), min(first, NARROWEST)), *others]
        left = [place == 0 or title in self.left for place, title in enumerate(self.titles)]
        header = _stacked([t.split("\n") for t in self.titles], widths, left, bottom=True)
        body = [
            line
            for first, *rest in self.rows
            for line in _stacked([_wrapped(first, widths[0]), *([c] for c in rest)], widths, left)
        ]
        return [*header, rule * (sum(widths) + len(GAP) * len(others)), *body]

    def _widths(self) -> list[int]:
        return [
            max(display_width(line) for cell in (title, *cells) for line in cell.split("\n"))
            for title, cells in zip(self.titles, self._columns(), strict=True)
        ]

    def _columns(self) -> list[list[str]]:
        return [[row[place] for row in self.rows] for place in range(len(self.titles))]


def display_width(text: str) -> int:
    """Columns that a terminal gives to a text."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def printable(text: str, unicode: bool = True) -> str:
    """On one line, without control characters, and in ASCII where there is nothing else."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if unicode:
        return clean
    return "".join(c if c.isascii() else _in_ascii(c) for c in clean)


def _in_ascii(char: str) -> str:
    """± as +-, β as beta, é as e, and a question mark for the rest."""
    if char in ASCII:
        return ASCII[char]
    name = unicodedata.name(char, "")
    if name.startswith("GREEK") and "LETTER " in name:
        return name.split("LETTER ")[1].split()[0].lower()
    return unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode() or "?"


def paragraph(text: str, width: int, indent: str = "") -> list[str]:
    """A text wrapped to a width; lines after the first are indented."""
    return _wrapped(text, width, indent) if text else []


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    room = max(width, NARROWEST)
    found = textwrap.wrap(text, room, break_on_hyphens=False, subsequent_indent=indent)
    return found or [""]


def _stacked(
    cells: list[list[str]], widths: list[int], left: list[bool], bottom: bool = False
) -> list[str]:
    """One row of cells of several lines each, put side by side."""
    height = max(len(cell) for cell in cells)
    filled = [
        [""] * (height - len(cell)) + cell if bottom else cell + [""] * (height - len(cell))
        for cell in cells
    ]
    columns = list(zip(filled, widths, left, strict=True))
    return [
        GAP.join(_padded(cell[line], width, side) for cell, width, side in columns).rstrip()
        for line in range(height)
    ]


def _padded(text: str, width: int, left: bool) -> str:
    space = " " * max(0, width - display_width(text))
    return text + space if left else space + text
