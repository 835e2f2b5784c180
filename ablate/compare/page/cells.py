"""A table's cells as HTML. An interval is a picture whose places are in percent, so that it takes
the width of its column; its numbers stand beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from ablate.compare.formats import Best, Column, Drawn, Table, text_of

LONG = 40  # characters of a cell that may take several lines
HEIGHT, MIDDLE, PAIRS = 32, 13, 24  # px: of a picture, of its interval, of its dots
EDGE = 47  # percent from 0 to the end of the axis
MOST_PAIRS = 60  # that are drawn


class Html(str):
    """A text that a template writes as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def cells(row: Sequence[Any], table: Table) -> Iterator[tuple[str, Any]]:
    """Each cell's class, and the cell as HTML or as text."""
    for index, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
        shown = _shown(cell)
        is_long = type(shown) is str and len(shown) > LONG
        yield "long" if is_long else _look(index, column), shown


def headings(table: Table) -> Iterator[tuple[str, str]]:
    """Each column's class, and its heading; of drawings, the axis."""
    for index, (column, heading) in enumerate(zip(table.columns, table.headings, strict=True)):
        ends = heading.partition(" to ")
        axis = Html(f"<span>{escape(ends[0])}</span><span>0</span><span>{escape(ends[2])}</span>")
        yield _look(index, column), axis if column.drawn else heading


def _look(index: int, column: Column) -> str:
    return "drawn" if column.drawn else "left" if column.left and index else ""


def _shown(cell: Any) -> Any:
    if isinstance(cell, Drawn):
        return _svg(cell)
    if isinstance(cell, Best):
        return Html(f"<b>{escape(cell.text)}</b>")
    return cell if hasattr(cell, "__html__") else text_of(cell)


def _svg(drawn: Drawn) -> Html:
    marks = [f'<rect class="zero" x="50%" width="1" height="{HEIGHT}" fill-opacity=".5"/>']
    if drawn.ends is not None and drawn.centre is not None:
        low, high = drawn.ends
        # The centre is within exactly where the interval contains 0.
        marks.insert(0, _bar(drawn.centre - high, drawn.centre - low, drawn, "open", HEIGHT))
        marks.append(_bar(low, high, drawn, "interval", 2))
    within = [pair for pair in drawn.pairs if abs(drawn.place(pair)) <= 1]
    marks += [_dot(pair, drawn, "pair", PAIRS, 2) for pair in within[:MOST_PAIRS]]
    if drawn.centre is not None:
        marks.append(_dot(drawn.centre, drawn, "centre", MIDDLE, 4))
    look = "decided" if drawn.is_decided else "undecided"
    return Html(
        f'<svg class="{look}" width="100%" height="{HEIGHT}" fill="currentColor" '
        f'aria-hidden="true">{"".join(marks)}</svg>'
    )


def _bar(low: float, high: float, drawn: Drawn, look: str, height: int) -> str:
    left, right = _place(low, drawn), _place(high, drawn)
    opacity = ' fill-opacity=".1"' if look == "open" else ""
    return (
        f'<rect class="{look}" x="{left:.2f}%" y="{MIDDLE - min(MIDDLE, height / 2):g}" '
        f'width="{right - left:.2f}%" height="{height}"{opacity}/>'
    )


def _dot(value: float, drawn: Drawn, look: str, y: int, radius: int) -> str:
    return f'<circle class="{look}" cx="{_place(value, drawn):.2f}%" cy="{y}" r="{radius}"/>'


def _place(value: float, drawn: Drawn) -> float:
    """Where a value is, in percent; what is beyond the axis goes to the edge of the picture."""
    return min(max(50 + EDGE * drawn.place(value), 0), 100)
