"""The series of a described figure as plotly's traces: plain data, the same numbers, hover texts.

plotly reads a few HTML tags in every text, so whatever users named is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Any

from ablate.compare.formats import text_of
from ablate.compare.plots.figure import Axis, LineStyle, Panel, Series
from ablate.compare.text.figures import count

FORMS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x")
SYMBOLS = dict(zip("osD^vPX", FORMS, strict=True)) | {"<": "triangle-left", ">": "triangle-right"}
POINT = 4 / 3  # pixels
Trace = dict[str, Any]


def traces(panel: Panel, axes: Trace, legend: str) -> Iterator[Trace]:
    """Every series of a panel, the lowest first; without a legend, names stand elsewhere."""
    series = [mark for mark in panel.marks if isinstance(mark, Series) and len(mark.x)]
    names = {id(each): end.text for each, end in zip(panel.series, panel.ends, strict=True)}
    groups: dict[Any, list[Series]] = {}
    for each in sorted(series, key=lambda each: each.look.above):
        groups.setdefault(_joined(each), []).append(each)
    for key, group in groups.items():
        if isinstance(key, int):
            yield from _alone(group[0], panel, axes, legend, names.get(key, ""))
        else:
            yield {**axes, **_together(group, panel)}


def _joined(series: Series) -> Any:
    """What series have in common that can be one trace; thousands of traces would take seconds."""
    if series.name or series.low:
        return id(series)
    return series.look, series.steps, len(series.x) == 1


def _together(group: Sequence[Series], panel: Panel) -> Trace:
    """Lines without names, with a gap after each."""
    x = [value for each in group for value in (*each.x, None)][:-1]
    y = [value for each in group for value in (*each.y, None)][:-1]
    texts = [text for each in group for text in (*_about(each, panel), "")][:-1]
    return {**_drawn(group[0], x, y), **_hover(texts), "showlegend": False}


def _alone(series: Series, panel: Panel, axes: Trace, legend: str, name: str) -> Iterator[Trace]:
    """A series that has a name or intervals, after its band, which its legend hides too."""
    together = {**axes, "legendgroup": f"{axes['xaxis']} {series.name}"}
    if series.shade:
        yield {**together, **_band(series)}
    bars = {"error_y": _bars(series)} if series.cap and series.low else {}
    yield {
        **together,
        **_drawn(series, [*series.x], [*series.y]),
        **_hover([*_about(series, panel)]),
        **bars,
        "name": text(name or series.name),
        "showlegend": bool(legend and name),
        **({"legend": legend} if legend else {}),
    }


def _drawn(series: Series, x: Sequence[Any], y: Sequence[Any]) -> Trace:
    look, single = series.look, len(series.x) == 1
    lines = ["lines"] if look.width and not single else []
    modes = [*lines, *(["markers"] if look.marker else [])]
    drawn: Trace = {"type": "scatter", "x": x, "y": y, "mode": "+".join(modes) or "markers"}
    drawn["line"] = line(look) | ({"shape": "hv"} if series.steps else {})
    if look.marker or single:
        drawn["marker"] = _marker(look)
    return drawn


def line(look: LineStyle) -> Trace:
    """Colour, width and dashes, whose lengths are multiples of the width."""
    dashes = ",".join(f"{POINT * look.width * each:.4g}px" for each in look.dashes)
    width = round(POINT * look.width, 2)
    return {"color": look.colour, "width": width, "dash": dashes or "solid"}


def _marker(look: LineStyle) -> Trace:
    inside = "#ffffff" if look.hollow else look.colour
    edge = {"color": look.colour, "width": 1.5 if look.hollow else 0}
    size = round(POINT * look.size, 2)
    symbol = SYMBOLS[look.marker or "o"]
    return {"symbol": symbol, "size": size, "color": inside, "opacity": 1, "line": edge}


def _band(series: Series) -> Trace:
    """The area between the ends: along one of them, and back along the other."""
    colour = series.look.colour.lstrip("#")
    red, green, blue = (int(colour[at : at + 2], 16) for at in (0, 2, 4))
    return {
        "type": "scatter",
        "x": [*series.x, *reversed(series.x)],
        "y": [*series.high, *reversed(series.low)],
        "fill": "toself",
        "fillcolor": f"rgba({red},{green},{blue},{series.shade})",
        "mode": "none",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _bars(series: Series) -> Trace:
    ends = [*zip(series.y, series.low, series.high, strict=True)]
    look = {"color": series.look.colour, "thickness": round(POINT * series.look.width, 2)}
    return {
        "type": "data",
        "symmetric": False,
        "array": [abs(high - y) for y, _, high in ends],
        "arrayminus": [abs(y - low) for y, low, _ in ends],
        "width": POINT * series.cap,
        **look,
    }


def _hover(texts: Sequence[str]) -> Trace:
    if not any(texts):
        return {"hoverinfo": "skip"}
    return {"hoverinfo": "text", "hovertext": texts}


def _about(series: Series, panel: Panel) -> Iterator[str]:
    """The text that a reader sees at each point: that of the series, or its name and numbers.

    Of several points only the last has the whole of a long text.
    """
    if series.about:
        whole, first = text(series.about), text(series.about.partition("\n")[0])
        yield from (first for _ in series.x[1:])
        yield whole
    elif not series.name:
        yield from ("" for _ in series.x)
    else:
        yield from _numbers(series, panel)


def _numbers(series: Series, panel: Panel) -> Iterator[str]:
    ends = [*zip(series.low, series.high, strict=True)] or [None] * len(series.y)
    for x, y, pair in zip(series.x, series.y, ends, strict=True):
        low, high = (text_of(float(end)) for end in sorted(pair)) if pair else ("", "")
        interval = f" ({low} to {high})" if pair else ""
        value = f"{panel.y.title}: {text_of(float(y))}{interval}"
        yield "<br>".join(map(text, (series.name, _place(panel.x, x), value)))


def _place(axis: Axis, x: float) -> str:
    if axis.ticks:
        return str(axis.at(x))
    return f"{axis.title}: {count(x) if axis.numbers == 'counts' else text_of(float(x))}"


def text(words: str) -> str:
    """A text for plotly, which takes entities and line breaks from HTML."""
    return html.escape(words, quote=False).replace("\n", "<br>")
