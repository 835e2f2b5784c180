"""Shared by all pictures: colours that everyone can tell apart, escaped labels, scales and bars."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ablate.analysis import Finding

# Okabe and Ito's palette; yellow last, because it is hard to see on white.
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#000000",
    "#f0e442",
)
GREY = "#666666"
STYLES = ("-", "--", "-.", ":")  # lines and bars also differ without colour
HATCHES = ("", "//")
WIDE = 10  # largest/smallest value from which on an axis is logarithmic


def label(text: str) -> str:
    """Escape a text for matplotlib: `$` starts no formula, and a leading `_` hides no line."""
    safe = text.replace("$", r"\$")
    return f" {safe}" if safe.startswith("_") else safe


def line_looks(num: int) -> list[dict[str, Any]]:
    """The colour and style of each of several lines; dashes keep lines below visible."""
    return [{"color": COLOURS[i % 8], "linestyle": STYLES[i % 4]} for i in range(num)]


def scale(axes: Any, values: Iterable[float]) -> None:
    """Make the y axis logarithmic, with plain numbers, if the values span a wide range."""
    positive = [value for value in values if value > 0]
    ratio = max(positive) / min(positive) if positive else 1.0
    if ratio >= WIDE:
        axes.set_yscale("log")
        if ratio < WIDE**2:
            axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axes.yaxis.set_major_formatter("{x:,.12g}")
        axes.yaxis.set_minor_formatter("")


def bars(axes: Any, names: list[str], series: dict[str, list[float]]) -> None:
    """Draw bars side by side for every name, one per series."""
    width = 0.8 / len(series)
    for index, (name, values) in enumerate(series.items()):
        positions = [x - 0.4 + (index + 0.5) * width for x in range(len(names))]
        look = {"color": COLOURS[index], "hatch": HATCHES[index % 2], "edgecolor": "white"}
        axes.bar(positions, values, width, label=label(name), **look)
    tilted = {"rotation": 45, "ha": "right"} if max(map(len, names)) > 4 else {}
    axes.set_xticks(range(len(names)), [label(name) for name in names], **tilted)
    if len(series) > 1:
        axes.legend(frameon=False, fontsize="small")


def save_pictures(finding: Finding, path: Path) -> list[Path]:
    """Write a finding's PNG and SVG; the same finding always gives the same bytes."""
    if finding.draw is None:
        return []
    import matplotlib
    from matplotlib.figure import Figure

    files = [path.with_suffix(f".{kind}") for kind in ("png", "svg")]
    with matplotlib.rc_context({"svg.hashsalt": path.name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a word in other letters
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        finding.draw(axes)
        axes.set_title(label(finding.title), fontsize="medium", wrap=True)
        for file, removed in zip(files, ({"Software": None}, {"Date": None}), strict=True):
            figure.savefig(file, dpi=150, metadata=removed)
    return files
