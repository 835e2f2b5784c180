"""Draws described figures with matplotlib: for files, and for pages without a script."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ablate.compare.plots import figure as described
from ablate.compare.plots import style
from ablate.compare.plots.apart import spread
from ablate.compare.text.figures import count
from ablate.errors import MissingDependency, StoreError, needs

KINDS = ("png", "svg")  # unless others are asked for
FORMATS = (*KINDS, "pdf")
UNNAMED: dict[str, Any] = {  # neither time nor software: equal plots have equal bytes
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
DPI = 150
LEADER = {
    "arrowstyle": "-",
    "color": style.GREY,
    "linewidth": 0.5,
    "shrinkB": 2,
    "relpos": (0, 0.5),
}
BOX = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.5}
BESIDE = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": 7}


def drawn(figure: described.Figure, look: style.Name = "plain") -> Any:
    """Return a matplotlib figure of what is described."""
    try:
        with style.look(look):
            return _drawn(figure, style.SCALES[look])
    except ModuleNotFoundError as error:
        raise MissingDependency(needs("plots need", error.name or "matplotlib")) from None


def _drawn(figure: described.Figure, scale: float) -> Any:
    size, num = (scale * figure.width, scale * figure.height), len(figure.panels)
    shared = {f"share{axis}": True for axis in figure.shared}
    made, axes = style.panels(*size, num, figure.columns, **shared)
    for index, (each, panel) in enumerate(zip(axes, figure.panels, strict=True)):
        _panel(each, panel)
        if figure.shared == "xy":  # small panels
            each.set_title(panel.title, fontsize=8)
            each.tick_params(labelsize=7)
            made.supxlabel(panel.x.title, fontsize=9)
            made.supylabel(panel.y.title, fontsize=9)
        else:
            each.set_title(panel.title, loc="left")
            each.set_xlabel(panel.x.title)
            each.set_ylabel("" if index % figure.columns else panel.y.title)
        if panel.names == "ends":
            _label_ends(each, [*panel.ends])
    return made


def _panel(axes: Any, panel: described.Panel) -> None:
    for mark in panel.marks:
        _mark(axes, mark)
    _axis(axes, "x", panel.x)
    _axis(axes, "y", panel.y)
    if panel.note:
        look = {"ha": "center", "va": "top", "fontsize": 8, "color": style.BLUE}
        axes.text(0.5, 0.9, panel.note, **look, transform=axes.transAxes)
    for y, text in panel.margin_notes:
        look = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8}
        axes.text(1.02, y, text, **look)
    if panel.names == "legend":
        axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    if panel.parallel:
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(axis="x", length=0, labelsize=8)


def _axis(axes: Any, name: str, axis: described.Axis) -> None:
    ours = getattr(axes, f"{name}axis")
    if axis.log:  # first, since matplotlib replaces an axis's ticks with its scale
        axes.set(**{f"{name}scale": "log"})
    if axis.ticks is not None:
        ours.set_ticks([place for place, _ in axis.ticks], [text for _, text in axis.ticks])
    if axis.limits:
        axes.set(**{f"{name}lim": axis.limits})
    if axis.log:  # after the limits, between which it looks for numbers
        _plain_numbers(ours)
    if axis.numbers == "counts":
        ours.set_major_formatter(lambda value, _: count(value) if value else "0")
    if axis.numbers == "whole":
        from matplotlib.ticker import MaxNLocator

        ours.set_major_locator(MaxNLocator(8, integer=True))
    if not axis.grid:
        axes.grid(axis=name, visible=False)


def _plain_numbers(axis: Any) -> None:
    """200 and 1000 on a logarithmic axis, not powers of ten."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    narrow = high / max(low, 1e-12) < 8
    # In less than a decade, a logarithmic locator finds one or two numbers, or none.
    round_numbers = LogLocator(10, (1, 2, 5), numticks=12)
    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]) if narrow else round_numbers)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def _mark(axes: Any, mark: described.Mark) -> None:
    if isinstance(mark, described.Rule):
        axes.axvline(mark.x, color=style.BLACK, linewidth=0.8)
    elif isinstance(mark, described.Label):
        axes.annotate(mark.text, (mark.x, mark.y), **BESIDE, bbox=BOX, zorder=6)
    else:
        _series(axes, mark)


def _series(axes: Any, series: described.Series) -> None:
    x, y, low, high = series.x, series.y, series.low, series.high
    look = {**_look(series.look), "label": series.name}
    if series.cap:
        # matplotlib takes distances from the value, not the interval's ends.
        bars = np.abs(np.subtract([low, high], [y])) if low else None
        axes.errorbar(x, y, yerr=bars, capsize=series.cap, **look)
    else:
        axes.plot(x, y, drawstyle="steps-post" if series.steps else "default", **look)
    if series.shade:
        band = {"color": series.look.colour, "alpha": series.shade, "linewidth": 0}
        axes.fill_between(x, low, high, **band)


def _look(look: described.LineStyle) -> dict[str, Any]:
    return {
        "color": look.colour,
        "linestyle": style.linestyle(look.dashes),
        "linewidth": look.width,
        "marker": look.marker or None,
        "ms": look.size,
        "markerfacecolor": "white" if look.hollow else look.colour,
        "zorder": look.above,
    }


def _label_ends(axes: Any, ends: Sequence[described.Label]) -> None:
    """Write names to the right of the axes, at the heights of their places, without overlap."""
    # The layout is computed only now, and the axes' height is known after it.
    axes.figure.draw_without_rendering()
    gap = style.LINE_HEIGHT / (axes.figure.get_size_inches()[1] * axes.get_position().height)
    to_axes = axes.transData + axes.transAxes.inverted()
    order = sorted(ends, key=lambda end: end.y)
    heights = spread([float(to_axes.transform((end.x, end.y))[1]) for end in order], gap)
    for end, height in zip(order, heights, strict=True):
        axes.annotate(
            end.text,
            (end.x, end.y),
            xytext=(1.03, height),
            textcoords=axes.transAxes,
            va="center",
            color=end.colour,
            annotation_clip=False,
            arrowprops=LEADER,
        )


def written(figure: Any, kind: str, look: style.Name = "plain") -> bytes:
    """The bytes of a plot's file, in the look that it was drawn in."""
    data = io.BytesIO()
    with style.look(look):
        figure.savefig(data, format=kind, dpi=DPI, metadata=UNNAMED[kind], bbox_inches="tight")
    return data.getvalue()


def save(file: Path, data: bytes) -> None:
    """Write a file, and make its folder if necessary."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}.") from error
