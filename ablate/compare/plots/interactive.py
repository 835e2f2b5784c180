"""Draws described figures with plotly: for the live page, the report and notebooks.

A page needs four texts: `stylesheet()`, which gives figures the page's colours, light or dark;
for each figure an element and its `as_json(figure)`; `script()`, plotly itself; and `starter()`,
which draws every figure that the page has. Nothing comes from the network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ablate.compare.plots.figure import Figure
from ablate.compare.plots.geometry import boxes, has_legend, height
from ablate.compare.plots.layout import layout
from ablate.compare.plots.traces import Trace, traces
from ablate.errors import MissingDependency, needs

CONFIG = {
    "responsive": True,
    "displaylogo": False,
    "showSendToCloud": False,  # plotly's own default has a button that uploads the numbers
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "svg"},
}
FOLDER = Path(__file__).parent
INSIDE, OUTSIDE = '"use strict";var Plotly=', "return Plotly;"  # ends of what plotly's script wraps


def drawn(figure: Figure) -> Any:
    """Return a plotly figure of what is described; show it with `CONFIG`."""
    try:
        from plotly.graph_objects import Figure as Plotly
    except ModuleNotFoundError as error:
        raise MissingDependency(needs("interactive plots need", error.name or "plotly")) from None
    # Without the page's style: white also in a dark notebook, and as high as the page makes it.
    own = {"height": height(figure), "paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff"}
    return Plotly({"data": [*_traces(figure)], "layout": {**layout(figure), **own}})


def as_json(figure: Figure) -> str:
    """`data`, `layout` and `config` for `Plotly.newPlot`; safe within a script element."""
    whole = {"data": [*_traces(figure)], "layout": layout(figure), "config": CONFIG}
    text = json.dumps(whole, separators=(",", ":"), default=float)
    return text.replace("<", "\\u003c")


def _traces(figure: Figure) -> Iterator[Trace]:
    for panel, box in zip(figure.panels, boxes(figure), strict=True):
        place = {"xaxis": f"x{box.number}", "yaxis": f"y{box.number}"}
        legend = f"legend{box.number}" if has_legend(panel) else ""
        yield from traces(panel, place, legend)


@cache
def script() -> str:
    """Return plotly's own script, from its package."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise MissingDependency(needs("interactive plots need", error.name or "plotly")) from None
    return _unwrapped(get_plotlyjs())


def _unwrapped(script: str) -> str:
    """Return plotly's script without the function around it, which suits other loaders than a page.

    A browser reads the inside of such a function twice, which takes half a second.
    """
    start, end = script.find(INSIDE), script.rfind(OUTSIDE)
    banner = script.find("*/") + len("*/")
    if not 0 < banner < start < end:  # another version of plotly's
        return script
    return f"{script[:banner]}\n{script[start:end]}"


def starter() -> str:
    """Return the script that draws every figure of a page, after plotly's."""
    return (FOLDER / "figures.js").read_text(encoding="utf-8")


def stylesheet() -> str:
    """Return the style that gives figures the page's colours."""
    return (FOLDER / "figures.css").read_text(encoding="utf-8")
