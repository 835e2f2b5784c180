"""How plots look: for print in black and white, and for the colour-blind.

Colours are those of Okabe and Ito (2008), without yellow, which disappears in print; a line's
dashes and a point's marker repeat what its colour says.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
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
# For papers: letters like those of the text around, from matplotlib's own fonts.
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


def labels(names: Sequence[str], most: int = 34) -> list[str]:
    """Return the names, each of at most `most` characters (4 or more), and different if they were.

    A long name is cut in its middle; names that are alike at both ends, before what tells them
    apart; and if that is too long as well, they are numbered.
    """
    cut = {name: _cut(name, most) for name in names}
    for again in (_cut_before_difference, _numbered):
        for group in _alike(cut):
            long = [name for name in group if len(name) > most]  # a short one stays as it is
            cut |= again(long, most, [*cut.values()])
    return [cut[name] for name in names]


def _alike(cut: Mapping[str, str]) -> list[list[str]]:
    """The names that have one label."""
    groups: dict[str, list[str]] = {}
    for name, label in cut.items():
        groups.setdefault(label, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _cut(name: str, most: int) -> str:
    """The name without its middle."""
    tail = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[len(name) - tail :]}"


def _cut_before_difference(group: Sequence[str], most: int, taken: Sequence[str]) -> dict[str, str]:
    shared, head = len(os.path.commonprefix([*group])), (most - 2) // 3
    ends = {name: name[max(head, shared - 1) :] for name in group}
    return {name: f"{name[:head]}…{_cut(end, most - head - 1)}" for name, end in ends.items()}


def _numbered(group: Sequence[str], most: int, taken: Sequence[str]) -> dict[str, str]:
    numbered: dict[str, str] = {}
    for name in group:
        made = (f"{name[: most - 1 - len(str(i))]}…{i}" for i in itertools.count(1))
        numbered[name] = next(x for x in made if x not in (*taken, *numbered.values()))
    return numbered
