"""What the pictures share: colours that everybody can tell apart, and words shown as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Okabe & Ito's; the yellow last, for it is hard to see on white.
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
STYLES = ("-", "--", "-.", ":")  # and lines, and bars, differ without colour, too
HATCHES = ("", "//")
WIDE = 10  # from a ratio of this on, an axis is logarithmic


def label(text: str) -> str:
    """A text as matplotlib takes it: `$` begins no formula, and `_` hides no line."""
    safe = text.replace("$", r"\$")
    return f" {safe}" if safe.startswith("_") else safe


def line_looks(num: int) -> list[dict[str, Any]]:
    """How each of several lines is drawn; the later ones let the earlier ones be seen."""
    return [{"color": COLOURS[i % 8], "linestyle": STYLES[i % 4]} for i in range(num)]


def scale(axes: Any, values: Iterable[float]) -> None:
    """A logarithmic y axis where the values want one, with plain numbers beside it."""
    positive = [value for value in values if value > 0]
    ratio = max(positive) / min(positive) if positive else 1.0
    if ratio >= WIDE:
        axes.set_yscale("log")
        if ratio < WIDE**2:
            axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axes.yaxis.set_major_formatter("{x:,.12g}")
        axes.yaxis.set_minor_formatter("")


def bars(axes: Any, names: list[str], series: dict[str, list[float]]) -> None:
    """Bars side by side for every name, one of each series."""
    width = 0.8 / len(series)
    for index, (name, values) in enumerate(series.items()):
        places = [place - 0.4 + (index + 0.5) * width for place in range(len(names))]
        look = {"color": COLOURS[index], "hatch": HATCHES[index % 2], "edgecolor": "white"}
        axes.bar(places, values, width, label=label(name), **look)
    tilted = {"rotation": 45, "ha": "right"} if max(map(len, names)) > 4 else {}
    axes.set_xticks(range(len(names)), [label(name) for name in names], **tilted)
    if len(series) > 1:
        axes.legend(frameon=False, fontsize="small")
