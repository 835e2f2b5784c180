"""Shared by all pictures, which look like a study's plots: labels, scales, bars and files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.compare.plots import style
from ablate.compare.plots.static import KINDS, save, written

if TYPE_CHECKING:
    from ablate.lm.analysis import Finding

HATCHES = ("", "//")  # bars also differ without colour
WIDE = 10  # largest/smallest value from which on an axis is logarithmic


def label(text: str) -> str:
    """A text for matplotlib, which hides a line whose name starts with `_`."""
    return f" {text}" if text.startswith("_") else text


def scale(axes: Any, values: Iterable[float]) -> None:
    """Make the y axis logarithmic, with plain numbers, if the values span a wide range."""
    positive = [value for value in values if value > 0]
    ratio = max(positive) / min(positive) if positive else 1.0
    if ratio >= WIDE:
        axes.set_yscale("log")
        if ratio < WIDE**2:  # powers of ten alone would be one or two labels
            axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axes.yaxis.set_major_formatter("{x:,.12g}")
        axes.yaxis.set_minor_formatter("")


def bar_look(index: int) -> dict[str, Any]:
    """The colour and hatching of the index-th kind of bars."""
    colour = style.COLOURS[1 + index % (style.MAX_LINES - 1)]  # black would hide the hatching
    return {"color": colour, "hatch": HATCHES[index % 2], "edgecolor": "white"}


def bars(axes: Any, names: list[str], series: dict[str, list[float]]) -> None:
    """Draw bars side by side for every name, one per series."""
    width = 0.8 / len(series)  # of a unit per name; the rest is the gap between names
    for index, (name, values) in enumerate(series.items()):
        positions = [x - 0.4 + (index + 0.5) * width for x in range(len(names))]
        shown = label(name) if len(series) > 1 else None
        axes.bar(positions, values, width, label=shown, **bar_look(index))
    tilted = {"rotation": 45, "ha": "right"} if max(map(len, names)) > 4 else {}
    axes.set_xticks(range(len(names)), [label(name) for name in names], **tilted)


def save_pictures(finding: Finding, path: Path) -> list[Path]:
    """Write a finding's PNG and SVG; the same finding always gives the same bytes."""
    if finding.draw is None:
        return []
    files = [path.with_suffix(f".{kind}") for kind in KINDS]
    # A word in other letters. The filter stays: `catch_warnings` would undo what other threads set.
    warnings.filterwarnings("ignore", "Glyph .* missing from font")
    with style.look():
        figure, axes = style.figure(7, 4.5)
        finding.draw(axes)
        axes.set_title(label(finding.title), fontsize="medium", wrap=True)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
        for kind, file in zip(KINDS, files, strict=True):
            save(file, written(figure, kind))
    return files
