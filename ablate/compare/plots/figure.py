"""What a figure shows, as data: described once, from results, and drawn by any writer.

A figure has panels, a panel has two axes and marks, and a mark has places in the axes' numbers.
Nothing here knows of a library: `static.py` draws a figure with matplotlib for files, and
`interactive.py` with plotly for pages and notebooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ablate.compare.formats import Table, table_of_values
from ablate.compare.plots import style
from ablate.compare.text.labels import labels
from ablate.config.metrics import Metric


@dataclass(frozen=True, kw_only=True)
class LineStyle:
    """The look of a line and of its markers."""

    colour: str = style.BLACK
    dashes: tuple[float, ...] = ()  # lengths of strokes and gaps; none: solid
    width: float = 1.5  # 0: markers alone
    marker: str = ""  # as matplotlib names them
    size: float = 5
    hollow: bool = False  # markers
    above: float = 2  # marks with a larger number are drawn above


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points in a line, with intervals or a band from `low` to `high` if it has these."""

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""  # a series without a name only leads the eye: no label, not in the table
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    look: LineStyle = LineStyle()
    shade: float = 0  # opacity of the band from `low` to `high`; 0: none
    cap: float = 0  # half the width of the ends of intervals, in points; 0: none
    steps: bool = False  # each value holds until the next point
    about: str = ""  # for a reader who points at it; none: its name and numbers


@dataclass(frozen=True)
class Rule:
    """A vertical line from the bottom of a panel to its top."""

    x: float


@dataclass(frozen=True)
class Label:
    """A text at the right of a place."""

    x: float
    y: float
    text: str
    colour: str = style.BLACK


Mark = Series | Rule | Label


@dataclass(frozen=True)
class Axis:
    """An axis: its title, limits, scale and numbers."""

    title: str = ""
    limits: tuple[float, float] | None = None  # none: whatever holds all marks
    log: bool = False
    numbers: Literal["plain", "counts", "whole"] = "plain"  # 1000, 1k, or no fractions
    ticks: Sequence[tuple[float, str]] | None = None  # places and texts instead of numbers
    grid: bool = True

    def at(self, value: float) -> Any:
        """The text of the tick nearest to a value; without ticks, the value itself."""
        if not self.ticks:
            return value
        # Marks may stand a little beside their ticks, so as not to hide each other.
        text = min(self.ticks, key=lambda tick: abs(tick[0] - value))[1]
        return f"{self.title}: {text}"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Two axes, the marks between them in the order of drawing, and texts around them."""

    x: Axis
    y: Axis
    marks: Sequence[Mark]
    title: str = ""
    note: str = ""  # inside, at the top
    margin_notes: Sequence[tuple[float, str]] = ()  # texts at the right, at their heights
    names: Literal["", "ends", "legend"] = ""  # where the series' names stand
    longest: int = 34  # characters of a name at an end
    parallel: bool = False  # its rules are its axes, as of parallel coordinates

    @property
    def series(self) -> list[Series]:
        """The series that have names."""
        return [mark for mark in self.marks if isinstance(mark, Series) and mark.name]

    @property
    def ends(self) -> Iterator[Label]:
        """The names of the series at their last points, which limits may cut off."""
        low, high = self.y.limits or (float("-inf"), float("inf"))
        names = labels([series.name for series in self.series], self.longest)
        for series, name in zip(self.series, names, strict=True):
            value = series.y[-1]
            place = min(max(value, low), high)
            if value != place:
                number = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
                name += f" {'↑' if value > high else '↓'} {number}"
            yield Label(series.x[-1], place, name, series.look.colour)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A whole figure, with its caption."""

    title: str
    caption: str
    panels: Sequence[Panel]
    width: float = 7.2  # inches
    height: float = 3.8
    columns: int = 1  # of panels
    shared: Literal["", "y", "xy"] = ""  # axes that are the same, and so named once
    own_table: Table | None = None  # where marks alone do not say enough

    @property
    def table(self) -> Table:
        """What is drawn, in numbers: a row for each point of each series that has a name."""
        if self.own_table is not None:
            return self.own_table
        x, y = self.panels[0].x, self.panels[0].y
        headings = ["name", "at" if x.ticks else x.title, y.title, "from", "to"]
        rows = [row for panel in self.panels for row in _rows(panel)]
        # Without any interval, there are no columns for ends.
        width = 5 if any(row[3] is not None for row in rows) else 3
        return table_of_values(headings[:width], [row[:width] for row in rows])


def _rows(panel: Panel) -> Iterator[list[Any]]:
    for series in panel.series:
        # Of what is better if higher, the lower end of a loss is the higher end of what is shown.
        pairs = map(sorted, zip(series.low, series.high, strict=True))
        ends = [*pairs] or [[None, None]] * len(series.y)
        for x, y, pair in zip(series.x, series.y, ends, strict=True):
            yield [series.name, panel.x.at(x), y, *pair]


def nth_look(index: int, **more: Any) -> LineStyle:
    """The look of the index-th line, without markers."""
    colour, dashes, _ = style.nth(index)
    return LineStyle(colour=colour, dashes=dashes, **more)


def value_axis(title: str, metric: Metric, best: float, worst: float) -> Axis:
    """An axis from the best to the worst value, with some room."""
    if is_logarithmic(metric, best):
        return Axis(title, (0.97 * best, max(1.05 * worst, 1.1 * best)), log=True)
    low, high = sorted((best, worst))
    room = 0.05 * ((high - low) or abs(high) or 1.0)
    return Axis(title, (low - room, high + room))


def is_logarithmic(metric: Metric, best: float) -> bool:
    """Return whether lower is better and no value reaches 0."""
    return metric.better == "lower" and best > 0
