"""How plots look: for print in black and white, and for the colour-blind.

Colours are those of Okabe and Ito (2008), without yellow, which disappears in print; a line's
dashes and a point's marker repeat what its colour says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

BLACK, BLUE, VERMILLION, GREEN = "#000000", "#0072b2", "#d55e00", "#009e73"
PINK, ORANGE, SKY, GREY = "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c"
COLOURS = (BLACK, BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY)
# Lengths of strokes and gaps; none: a solid line.
DASHES: tuple[tuple[float, ...], ...]
DASHES = ((), (5, 2), (1, 1.5), (6, 2, 1, 2), (3, 1.5), (8, 3), ())
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINE_HEIGHT = 0.19  # inches of a label
MAX_LINES = len(COLOURS)  # more could not be distinguished
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
    "svg.fonttype": "path",  # letters as shapes: readers need not have the font
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
    "text.parse_math": False,  # a dollar in a name is a dollar
}
# For papers: letters that match the surrounding text, from matplotlib's own fonts.
SERIF: dict[Any, Any] = {
    "font.family": "serif",
    "font.serif": ["STIXGeneral", "DejaVu Serif"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.linewidth": 0.6,
}
Name = Literal["plain", "serif"]
LOOKS: dict[Name, dict[Any, Any]] = {"plain": LOOK, "serif": LOOK | SERIF}
SCALES: dict[Name, float] = {"plain": 1, "serif": 5.5 / 7.2}  # inches of a column of text


@contextmanager
def look(name: Name = "plain") -> Iterator[None]:
    """A context in which figures are made and written.

    `matplotlib.rc_context` would also replace the filters of warnings, of all threads.
    """
    from matplotlib import rcParams

    before = {key: rcParams[key] for key in LOOKS[name]}
    rcParams.update(LOOKS[name])
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
    # pyplot would keep every figure in memory, and look for a window system.
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    axes = made.subplots(-(-num // columns), columns, squeeze=False, **options).ravel()
    for unused in axes[num:]:
        unused.set_visible(False)
    return made, axes[:num]


def nth(index: int) -> tuple[str, tuple[float, ...], str]:
    """Colour, dashes and marker of the index-th line; where colours repeat, the others differ."""
    turn, position = divmod(index, MAX_LINES)
    other = (position + turn) % MAX_LINES
    return COLOURS[position], DASHES[other], MARKERS[other]


def line(index: int) -> dict[str, Any]:
    """Colour and dashes of the index-th line, for matplotlib."""
    colour, dashes, _ = nth(index)
    return {"color": colour, "linestyle": linestyle(dashes)}


def linestyle(dashes: Sequence[float]) -> Any:
    """Return strokes and gaps as matplotlib takes them."""
    return (0, dashes) if dashes else "-"


def marker(index: int) -> dict[str, Any]:
    """Colour and marker of the index-th line, for matplotlib."""
    colour, _, form = nth(index)
    return {"color": colour, "marker": form}
