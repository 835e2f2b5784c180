"""How plots look: for print in black and white, and for the colour-blind.

Colours are those of Okabe and Ito (2008), without yellow, which disappears in print; a line's
dashes and a point's marker repeat what its colour says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ablate.compare.text.figures import count

BLACK, BLUE, VERMILLION, GREEN = "#000000", "#0072b2", "#d55e00", "#009e73"
PINK, ORANGE, SKY, GREY = "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c"
COLOURS = (BLACK, BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY)
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (8, 3)), "-")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MAX_LINES = len(COLOURS)  # more could not be told apart
LINE_HEIGHT = 0.19  # inches of a label
LEADER = {"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkB": 2, "relpos": (0, 0.5)}
LOOK: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "ablate",  # the same plot, the same bytes
    "svg.fonttype": "path",
    "mathtext.default": "regular",
}


def look() -> Any:
    """A context in which figures are made and written."""
    return rc_context(LOOK)


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> Any:
    """A figure and its axes, [rows][columns]; nothing is shown and no window is opened."""
    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(rows, columns, squeeze=False, **options)


def line(index: int) -> dict[str, Any]:
    """Colour and dashes of the index-th line."""
    place = index % MAX_LINES
    return {"color": COLOURS[place], "linestyle": DASHES[place]}


def marker(index: int) -> dict[str, Any]:
    place = index % MAX_LINES
    return {"color": COLOURS[place], "marker": MARKERS[place]}


def plain_numbers(axis: Any, few: bool = False) -> None:
    """200 and 1000 on a logarithmic axis, not powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    if high / max(low, 1e-12) < 8 and not few:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    else:
        axis.set_major_locator(LogLocator(10, (1,) if few else (1, 2, 5), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def counts(axis: Any) -> None:
    """100k, 1M."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: count(value) if value else "0"))


def whole_numbers(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(8, integer=True))


def labels_beside(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names to the right of the axes, at the height of their points, without overlap.

    `ends`: x, y, name, colour. Call it after the limits are set.
    """
    figure_height = axes.figure.get_size_inches()[1]  # type: ignore[union-attr]
    gap = LINE_HEIGHT / (figure_height * axes.get_position().height)
    to_axes = axes.transData + axes.transAxes.inverted()
    order = sorted(ends, key=lambda end: end[1])
    heights = spread([float(to_axes.transform((x, y))[1]) for x, y, *_ in order], gap)
    for (x, y, name, colour), height in zip(order, heights, strict=True):
        axes.annotate(
            name,
            (x, y),
            xytext=(1.03, height),
            textcoords=axes.transAxes,
            va="center",
            color=colour,
            annotation_clip=False,
            arrowprops=LEADER,
        )


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """The positions, in order, moved apart as little as needed to be `gap` apart.

    Within 0 and 1, if they fit there.
    """
    groups: list[tuple[float, int]] = []  # centre and size of what has been merged
    for position in positions:
        centre, size = position, 1
        while groups and centre - groups[-1][0] < gap * (groups[-1][1] + size) / 2:
            other, others = groups.pop()
            centre = (centre * size + other * others) / (size + others)
            size += others
        groups.append((centre, size))
    apart = [c + gap * (i - (size - 1) / 2) for c, size in groups for i in range(size)]
    return _inside(apart, gap)


def _inside(places: list[float], gap: float) -> list[float]:
    lowest, highest = 0.0, max(1.0, gap * (len(places) - 1))
    for index in range(len(places)):
        places[index] = max(places[index], lowest)
        lowest = places[index] + gap
    for index in reversed(range(len(places))):
        places[index] = min(places[index], highest)
        highest = places[index] - gap
    return places


def shortened(name: str, most: int = 34) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
