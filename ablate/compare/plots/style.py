"""How plots look: for print in black and white, and for the colour-blind.

Colours are those of Okabe and Ito (2008), without yellow, which disappears in print; a line's
dashes and a point's marker repeat what its colour says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ablate.compare.text.figures import count
from ablate.config.metrics import Metric

if TYPE_CHECKING:  # only drawing needs matplotlib
    from matplotlib.axes import Axes

BLACK, BLUE, VERMILLION, GREEN = "#000000", "#0072b2", "#d55e00", "#009e73"
PINK, ORANGE, SKY, GREY = "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c"
COLOURS = (BLACK, BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY)
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (8, 3)), "-")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
End = tuple[float, float, str, str]  # of a line: x, y, name, colour
MAX_LINES = len(COLOURS)  # more could not be distinguished
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
    "text.parse_math": False,  # a dollar in a name is one
}


@contextmanager
def look() -> Iterator[None]:
    """A context in which figures are made and written.

    `matplotlib.rc_context` would also replace the filters of warnings, of all threads.
    """
    from matplotlib import rcParams

    before = {name: rcParams[name] for name in LOOK}
    rcParams.update(LOOK)
    try:
        yield
    finally:
        rcParams.update(before)


def figure(width: float, height: float) -> Any:
    """A figure and its axes; nothing is shown and no window is opened."""
    made, (axes,) = panels(width, height, 1, 1)
    return made, axes


def panels(width: float, height: float, num: int, columns: int, **options: Any) -> Any:
    """A figure and the axes of its panels, in rows of `columns`."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    axes = made.subplots(-(-num // columns), columns, squeeze=False, **options).ravel()
    for unused in axes[num:]:
        unused.set_visible(False)
    return made, axes[:num]


def line(index: int) -> dict[str, Any]:
    """Colour and dashes of the index-th line; a colour's second line has other dashes."""
    turn, position = divmod(index, MAX_LINES)
    return {"color": COLOURS[position], "linestyle": DASHES[(position + turn) % MAX_LINES]}


def marker(index: int) -> dict[str, Any]:
    """Return the colour and marker of a line; where colours repeat, markers differ."""
    turn, position = divmod(index, MAX_LINES)
    return {"color": COLOURS[position], "marker": MARKERS[(position + turn) % MAX_LINES]}


def value_axis(axes: Any, metric: Metric, best: float, worst: float) -> None:
    """From the best to the worst value."""
    if is_logarithmic(metric, best):
        axes.set_yscale("log")
        axes.set_ylim(0.97 * best, max(1.05 * worst, 1.1 * best))
        plain_numbers(axes.yaxis)
        return
    low, high = sorted((best, worst))
    room = 0.05 * ((high - low) or abs(high) or 1.0)
    axes.set_ylim(low - room, high + room)


def is_logarithmic(metric: Metric, best: float) -> bool:
    """Where lower is better and nothing reaches 0."""
    return metric.better == "lower" and best > 0


def plain_numbers(axis: Any) -> None:
    """200 and 1000 on a logarithmic axis, not powers of ten."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    narrow = high / max(low, 1e-12) < 8
    round_numbers = LogLocator(10, (1, 2, 5), numticks=12)
    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]) if narrow else round_numbers)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def counts(axis: Any) -> None:
    """100k, 1M."""
    axis.set_major_formatter(lambda value, _: count(value) if value else "0")


def whole_numbers(axis: Any) -> None:
    """Put an axis' ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(8, integer=True))


def label_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Names to the right of the axes, at the height of their points, without overlap.

    Call it after the limits are set.
    """
    whole: Any = axes.figure
    whole.draw_without_rendering()
    gap = LINE_HEIGHT / (whole.get_size_inches()[1] * axes.get_position().height)
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
    from scipy.optimize import isotonic_regression

    shifts = gap * np.arange(len(positions))
    apart = isotonic_regression(np.subtract(positions, shifts)).x
    return (np.clip(apart, 0, max(0, 1 - shifts[-1])) + shifts).tolist()


def shortened(name: str, most: int = 34) -> str:
    """Return a name cut to fit a legend."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
