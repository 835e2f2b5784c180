"""What surrounds the series of a described figure, as plotly's layout: axes, titles, labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ablate.compare.plots.apart import spread
from ablate.compare.plots.figure import Axis, Figure, Label, Panel, Rule, Series
from ablate.compare.plots.style import BLACK, GREY
from ablate.compare.plots.traces import text

INCH, LETTER, ROW = 96, 6.2, 19  # pixels: of an inch, a letter's width, and a legend's row
ABOVE, BELOW = 24, 52  # pixels: above a panel, for its title, and below it, for its axis
WIDE = 600  # pixels: of a legend below a figure
GRID, CLEAR = "#e5e5e5", "rgba(0,0,0,0)"
NUMBERS = {"plain": "", "counts": "~s", "whole": "d"}
MOST_TICKS = 8
Part = dict[str, Any]


@dataclass(frozen=True)
class Box:
    """Where a panel is, in shares of the whole plot, and which axes are its own."""

    left: float
    right: float
    bottom: float
    top: float
    number: str  # empty for the first, as plotly counts
    outer_x: bool  # the lowest panel of its column
    outer_y: bool  # the first panel of its row


def layout(figure: Figure) -> Part:
    """The whole layout, in the colours of a light page; `figures.css` has those of a dark one."""
    above, below = _around(figure)
    made: Part = {
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": BLACK},
        "hoverlabel": {"align": "left", "namelength": -1},
        "hovermode": "closest",
        "margin": {"l": 10, "r": _right(figure), "t": above, "b": below, "pad": 2},
        "height": height(figure),
        "shapes": [],
        "annotations": [],
    }
    for panel, box in zip(figure.panels, boxes(figure), strict=True):
        made |= _axes(figure, panel, box) | _legend(panel, box, figure)
        made["shapes"] += _shapes(panel, box)
        made["annotations"] += _annotations(figure, panel, box)
    return made


def height(figure: Figure) -> int:
    """The height in pixels: as described, and of a legend's rows."""
    rows = -(-len(figure.panels) // figure.columns)
    return round(INCH * figure.height) + (_legend_rows(figure) + rows * _inside_rows(figure)) * ROW


def most_width(figure: Figure) -> int:
    """The width in pixels beyond which the picture would only be stretched."""
    return round(1.45 * INCH * figure.width)


def least_width(figure: Figure) -> int:
    """The width in pixels below which the picture has to be scrolled."""
    texts = max(
        (len(words) for panel in figure.panels for _, words in panel.y.ticks or ()), default=0
    )
    if any(panel.parallel for panel in figure.panels):
        return 80 * max(len(panel.x.ticks or ()) for panel in figure.panels)
    return round(190 * figure.columns + LETTER * texts + _right(figure))


def boxes(figure: Figure) -> list[Box]:
    """The place of every panel, row by row."""
    num, columns = len(figure.panels), figure.columns
    rows = -(-num // columns)
    across = 0.02 if figure.shared else 0.1
    down = (ABOVE + _inside_rows(figure) * ROW + (14 if figure.shared == "xy" else BELOW)) / max(
        1, height(figure) - sum(_around(figure))
    )
    wide, high = (1 - across * (columns - 1)) / columns, (1 - down * (rows - 1)) / rows
    made = []
    for index in range(num):
        row, column = divmod(index, columns)
        left, top = column * (wide + across), 1 - row * (high + down)
        number = str(index + 1) if index else ""
        low = index + columns >= num
        made.append(Box(left, left + wide, max(0, top - high), top, number, low, column == 0))
    return made


def _around(figure: Figure) -> tuple[int, int]:
    """Pixels above and below all panels."""
    titled = any(panel.title for panel in figure.panels)
    above = (ABOVE if titled else 12) + ROW * _inside_rows(figure)
    return above, BELOW + ROW * _legend_rows(figure)


def has_legend(panel: Panel) -> bool:
    """Return whether looks tell its series apart; otherwise each is named next to its point."""
    looks = [series.look for series in panel.series]
    return panel.names == "legend" or (panel.names == "ends" and len({*looks}) == len(looks))


def _legend_rows(figure: Figure) -> int:
    """Rows of the legend below a figure."""
    panel = figure.panels[0]
    if panel.names != "ends" or not has_legend(panel):
        return 0
    return math.ceil(sum(LETTER * len(end.text) + 60 for end in panel.ends) / WIDE)


def _inside_rows(figure: Figure) -> int:
    """Rows of the legends on top of panels."""
    return max(len(panel.series) if panel.names == "legend" else 0 for panel in figure.panels)


def _right(figure: Figure) -> int:
    """Pixels at the right of all panels, for texts."""
    panel = figure.panels[0]
    texts = [words for panel in figure.panels for _, words in panel.beside]
    if panel.names == "ends" and not has_legend(panel):
        texts += [end.text for end in panel.ends]
    return 24 + round(LETTER * max(map(len, texts), default=0))


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
        "title": {"text": text(axis.title) if shown else "", "standoff": 8},
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
    """The step between ticks: 1, 2, 5, 10 and so on, for at most so many ticks."""
    steps = (base * 10**power for power in range(12) for base in (1, 2, 5))
    return next(step for step in steps if span / step <= MOST_TICKS)


def _legend(panel: Panel, box: Box, figure: Figure) -> Part:
    """Below a figure, or on top of a panel."""
    look: Part = {"bgcolor": CLEAR, "font": {"size": 11}, "itemwidth": 34, "xanchor": "left"}
    if panel.names == "legend":
        at = {"x": box.left, "y": box.top, "yanchor": "bottom", "orientation": "v"}
    else:
        depth = BELOW / (height(figure) - sum(_around(figure)))
        at = {"x": 0, "y": -depth, "yanchor": "top", "orientation": "h"}
    return {f"legend{box.number}": look | at}


def _shapes(panel: Panel, box: Box) -> Iterator[Part]:
    """Vertical rules, and lines from points to their names."""
    axes = {"xref": f"x{box.number}", "yref": f"y{box.number} domain"}
    look = {"color": BLACK, "width": 1}
    for mark in panel.marks:
        if isinstance(mark, Rule):
            ends = {"x0": mark.x, "x1": mark.x, "y0": 0, "y1": 1}
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
    for value, words in panel.beside:
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
