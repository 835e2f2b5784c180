"""What surrounds the series of a described figure, as plotly's layout: axes, titles, labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ablate.compare.plots.apart import spread
from ablate.compare.plots.figure import Axis, Figure, Label, Panel, Rule, Series
from ablate.compare.plots.geometry import (
    BELOW,
    Box,
    around,
    boxes,
    has_legend,
    height,
    right,
)
from ablate.compare.plots.style import BLACK, GREY
from ablate.compare.plots.traces import text

GRID, CLEAR = "#e5e5e5", "rgba(0,0,0,0)"
NUMBERS = {"plain": "", "counts": "~s", "whole": "d"}
MOST_TICKS = 8
Part = dict[str, Any]


def layout(figure: Figure) -> Part:
    """The whole layout, in the colours of a light page; `figures.css` has the dark colours."""
    above, below = around(figure)
    made: Part = {
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": BLACK},
        "hoverlabel": {"align": "left", "namelength": -1},
        "hovermode": "closest",
        "hoverdistance": 40,
        "margin": {"l": 10, "r": right(figure), "t": above, "b": below, "pad": 2},
        "height": height(figure),
        "shapes": [],
        "annotations": [],
    }
    for panel, box in zip(figure.panels, boxes(figure), strict=True):
        made |= _axes(figure, panel, box) | _legend(panel, box, figure)
        made["shapes"] += _shapes(panel, box)
        made["annotations"] += _annotations(figure, panel, box)
    return made


def _axes(figure: Figure, panel: Panel, box: Box) -> Part:
    small = {"tickfont": {"size": 10}} if len(figure.panels) > 1 else {}
    x = {"domain": [box.left, box.right], "anchor": f"y{box.number}"}
    y = {"domain": [box.bottom, box.top], "anchor": f"x{box.number}"}
    shown_x = "x" not in figure.shared or box.outer_x
    shown_y = not figure.shared or box.outer_y
    fixed = panel.names == "ends" and not has_legend(panel)
    x |= _axis(panel.x, shown_x, fixed, [v for s in _all(panel) for v in s.x]) | small
    y |= _axis(panel.y, shown_y, fixed, [v for s in _all(panel) for v in s.y]) | small
    for axis, each in (("x", x), ("y", y)):
        if axis in figure.shared and box.number:
            each["matches"] = axis
        if panel.parallel:
            each |= {"showline": False, "ticks": ""}
    return {f"xaxis{box.number}": x, f"yaxis{box.number}": y}


def _all(panel: Panel) -> list[Series]:
    return [mark for mark in panel.marks if isinstance(mark, Series)]


def _axis(axis: Axis, shown: bool, fixed: bool, values: Sequence[float]) -> Part:
    """An axis as described; where it has texts for numbers, it cannot be moved."""
    made: Part = {
        "title": {"text": text(axis.title) if shown else "", "standoff": 8, "font": {"size": 12}},
        "showticklabels": shown,
        "automargin": True,
        "showgrid": axis.grid,
        "gridcolor": GRID,
        "zeroline": False,
        "showline": True,
        "linecolor": GREY,
        "ticks": "outside" if shown else "",
        "ticklen": 4,
        "tickcolor": GREY,
        "fixedrange": fixed or axis.ticks is not None,
        "type": "log" if axis.log else "linear",
        "tickformat": NUMBERS[axis.numbers] or ("~g" if axis.log else ""),
        "nticks": MOST_TICKS,
    }
    if axis.limits:
        made["range"] = [place(axis, end) for end in axis.limits]
    if axis.ticks is not None:
        made |= {
            "tickvals": [at for at, _ in axis.ticks],
            "ticktext": [text(t) for _, t in axis.ticks],
        }
    elif axis.log and axis.limits and axis.limits[1] >= 10 * axis.limits[0]:
        made["dtick"] = "D2"  # 1, 2 and 5; plotly shifts some numbers where it has all digits
    elif axis.numbers == "whole" and values:
        made |= {"dtick": _whole_step(max(values) - min(values)), "tick0": 0}
    return made


def place(axis: Axis, value: float) -> float:
    """A value as ranges and labels are placed: plotly takes their logarithms."""
    return math.log10(value) if axis.log else value


def _whole_step(span: float) -> int:
    """The step between ticks (1, 2, 5, 10, ...) that gives at most MOST_TICKS of them."""
    steps = (base * 10**power for power in range(12) for base in (1, 2, 5))
    return next(step for step in steps if span / step <= MOST_TICKS)


def _legend(panel: Panel, box: Box, figure: Figure) -> Part:
    """Below a figure, or on top of a panel."""
    look: Part = {"bgcolor": CLEAR, "font": {"size": 11}, "itemwidth": 34, "xanchor": "left"}
    if panel.names == "legend":
        at = {"x": box.left, "y": box.top, "yanchor": "bottom", "orientation": "v"}
    else:
        depth = BELOW / (height(figure) - sum(around(figure)))
        at = {"x": 0, "y": -depth, "yanchor": "top", "orientation": "h"}
    return {f"legend{box.number}": look | at}


def _shapes(panel: Panel, box: Box) -> Iterator[Part]:
    """Vertical rules, and lines from points to their names."""
    axes = {"xref": f"x{box.number}", "yref": f"y{box.number}"}
    low, high = panel.y.limits or (0, 1)
    look = {"color": BLACK, "width": 1}
    for mark in panel.marks:
        if isinstance(mark, Rule):
            ends = {"x0": mark.x, "x1": mark.x, "y0": low, "y1": high}
            yield {"type": "line", "layer": "between", **axes, **ends, "line": look}
    within = {"xref": f"x{box.number} domain", "yref": f"y{box.number} domain"}
    for end, at in _names(panel):
        ends = {"x0": _share(panel.x, end.x), "x1": 1.02, "y0": _share(panel.y, end.y), "y1": at}
        yield {
            "type": "line",
            "layer": "below",
            **within,
            **ends,
            "line": {"color": GREY, "width": 0.7},
        }


def _share(axis: Axis, value: float) -> float:
    """How far along an axis a value is; an axis without limits cannot tell."""
    low, high = (place(axis, end) for end in axis.limits or (value, value + 1))
    return (place(axis, value) - low) / (high - low)


def _names(panel: Panel) -> Iterator[tuple[Label, float]]:
    """The names of points that no look tells apart, with their heights at the right."""
    if panel.names == "ends" and not has_legend(panel):
        ends = sorted(panel.ends, key=lambda end: end.y)
        gap = min(0.06, 1 / len(ends))
        heights = [_share(panel.y, end.y) for end in ends]
        yield from zip(ends, spread(heights, gap), strict=True)


def _annotations(figure: Figure, panel: Panel, box: Box) -> Iterator[Part]:
    """Titles, notes, texts at the right, and labels of places."""
    x, y = f"x{box.number}", f"y{box.number}"
    within = {"xref": f"{x} domain", "yref": f"{y} domain", "showarrow": False}
    if panel.title:
        at = {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": 2}
        yield {
            **within,
            **at,
            "text": text(panel.title),
            "font": {"size": 11 if figure.shared else 12},
        }
    if panel.note:
        at = {"x": 0.5, "y": 0.9, "yanchor": "top", "font": {"size": 11}}
        yield {**within, **at, "text": text(panel.note)}
    small = {"showarrow": False, "font": {"size": 11}, "xanchor": "left", "yanchor": "middle"}
    for value, words in panel.margin_notes:
        at = {"xref": f"{x} domain", "yref": y, "x": 1, "y": place(panel.y, value), "xshift": 10}
        yield {**small, **at, "text": text(words)}
    for end, share in _names(panel):
        at = {"xref": f"{x} domain", "yref": f"{y} domain", "x": 1.02, "y": share, "xshift": 2}
        yield {**small, **at, "text": text(end.text), "font": {"size": 11, "color": end.colour}}
    for mark in panel.marks:
        if isinstance(mark, Label):
            at = {"xref": x, "yref": y, "x": place(panel.x, mark.x), "y": place(panel.y, mark.y)}
            look = {"bgcolor": "rgba(255,255,255,0.75)", "borderpad": 1, "xshift": 3}
            yield {**small, **at, **look, "text": text(mark.text), "font": {"size": 10}}
