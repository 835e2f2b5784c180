"""What a picture consists of, as text: every line, band, point, text, mark and limit of it.

Places that depend on how wide a font is are left out, so that equal pictures have equal texts on
every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_hex

DIGITS = 4


def drawn(figure: Any) -> str:
    """The whole of a figure, a line for each of its parts."""
    wide, high = figure.get_size_inches()
    lines = [f"figure {_numbers([wide, high])} inches"]
    lines += [f"  text {_text(text)}" for text in figure.texts]
    for axes in figure.axes:
        lines += _axes(axes) if axes.get_visible() else ["axes, not shown"]
    return "\n".join(lines)


def _axes(axes: Any) -> Iterator[str]:
    title = axes.get_title(loc="left") or axes.get_title()
    yield f"axes {title!r} {_size(axes.title)}" if title else "axes"
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        low, high = axis.get_view_interval()
        marks = [label.get_text() for label in axis.get_ticklabels()]
        places = [place for place in axis.get_majorticklocs() if low <= place <= high]
        yield (
            f"  {name} {axis.get_label_text()!r} {axis.get_scale()} {_numbers([low, high])} "
            f"at {_numbers(places)} {marks} {_size(axis.get_ticklabels()[0]) if marks else ''} "
            f"grid {any(line.get_visible() for line in axis.get_gridlines())}"
        )
    spines = [name for name, spine in axes.spines.items() if spine.get_visible()]
    yield f"  spines {spines}, ticks below: {axes.get_axisbelow()}"
    for line in axes.lines:
        yield f"  line {_line(line)}"
    for band in axes.collections:
        yield f"  band {_band(band)}"
    for text in axes.texts:
        yield f"  text {_text(text)}"
    legend = axes.get_legend()
    if legend is not None:
        shown = [text.get_text() for text in legend.get_texts()]
        place = legend.get_bbox_to_anchor().transformed(axes.transAxes.inverted()).p0
        look = f"{_size(legend.get_texts()[0])}, frame: {legend.get_frame_on()}"
        yield f"  legend {shown} {look} at {_numbers(place)}"


def _line(line: Any) -> str:
    marker = line.get_marker()
    start, dashes = line._unscaled_dash_pattern  # `get_linestyle` has one word for all dashes
    look = [to_hex(line.get_color()), (start, *(dashes or ())), line.get_linewidth()]
    if marker not in ("None", None):
        look += [marker, line.get_markersize(), to_hex(line.get_markerfacecolor())]
    x, y = line.get_xdata(), line.get_ydata()
    return f"{_plain(look)} over {line.get_zorder():g} {_numbers(x)} to {_numbers(y)}"


def _band(band: Any) -> str:
    colours = [to_hex(colour, keep_alpha=True) for colour in band.get_facecolor()]
    edges = [to_hex(colour, keep_alpha=True) for colour in band.get_edgecolor()]
    places = [_numbers(path.vertices.ravel()) for path in band.get_paths()]
    return f"{colours} {edges} {_numbers(band.get_linewidth())} {' '.join(places)}"


def _text(text: Any) -> str:
    place = text.get_position()
    arrow = "" if getattr(text, "arrow_patch", None) is None else " with an arrow"
    to = f" of {_numbers(text.xy)}" if hasattr(text, "xy") else ""
    box = text.get_bbox_patch()
    behind = "" if box is None else f" on {to_hex(box.get_facecolor(), keep_alpha=True)}"
    align = f"{text.get_ha()} {text.get_va()}"
    x, y = (_numbers([place[0]]), "beside it" if arrow else _numbers([place[1]]))
    return (
        f"{text.get_text()!r} {_size(text)} {to_hex(text.get_color())} {align} "
        f"at {x} {y}{to}{arrow}{behind}{_clipped(text)} over {text.get_zorder():g}"
    )


def _clipped(text: Any) -> str:
    beyond = getattr(text, "get_annotation_clip", lambda: None)()
    return "" if beyond is None else f" clipped: {beyond}"


def _size(text: Any) -> str:
    return f"{text.get_fontsize():g}pt"


def _numbers(values: Any) -> str:
    return "[" + " ".join(f"{value:.{DIGITS}g}" for value in np.ravel(values)) + "]"


def _plain(values: Sequence[Any]) -> str:
    return " ".join(_numbers(v) if isinstance(v, list | tuple) else str(v) for v in values)
