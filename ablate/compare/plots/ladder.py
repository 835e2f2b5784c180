"""Losses and gains against compute, on every rung of a ladder and beyond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ablate.compare.judged import Judged
from ablate.compare.plots import figure as fig
from ablate.compare.plots import style
from ablate.compare.statistics.climb import Climb, half_widths
from ablate.compare.statistics.ladder import OverRungs, over_rungs
from ablate.compare.statistics.trend import weights_at

NEEDS = "a ladder of which every rung has been run; name it as STUDY@SCALE, without a rung"
POINTS = 25  # of a curve
EXTRAPOLATED = (2.0, 2.0)  # strokes and gaps beyond the largest rung
SHADE = 0.15
MOST_ARMS = 6


def described(judged: Judged) -> fig.Figure | None:
    """The figure of a ladder, of which every rung is opened."""
    if not judged.rungs:
        return None
    found = over_rungs(judged.rungs)
    return figure(found) if found.climbs else None


def figure(found: OverRungs) -> fig.Figure | None:
    """Above, each arm's curve; below, the gain of each arm, with its line."""
    climbs = [c for c in found.climbs.values() if c.compute and c.rises][:MOST_ARMS]
    if not climbs:
        return None
    most = max(max(climb.compute) for climb in climbs) * found.times
    least = min(min(climb.compute) for climb in climbs)
    ends = (0.7 * least, 1.4 * most)
    x = fig.Axis("operations of a seed's training", ends, log=True, numbers="counts")
    metric = found.first.metric
    losses = [m for i, climb in enumerate(climbs) for m in _curve(climb, i, found)]
    gains = [m for i, c in enumerate(climbs) if c.arm != c.against for m in _gain(c, i, found)]
    shown = [value for mark in losses for value in mark.y]
    best, worst = sorted((min(shown), max(shown)), reverse=metric.better == "higher")
    y = fig.value_axis(f"{metric.shown} of {found.first.split}", metric, best, worst)
    panels = [fig.Panel(x=x, y=y, marks=losses, names="legend")]
    if gains:
        change = "change in %" if metric.in_percent else "difference"
        y = fig.Axis(f"{change} from the base arm")
        grey = fig.LineStyle(colour=style.GREY, width=0.7)
        zero = fig.Series(x=ends, y=[0, 0], look=grey)
        panels.append(fig.Panel(x=x, y=y, marks=[zero, *gains], names="legend"))
    return fig.Figure(
        title="Over the rungs of the ladder",
        caption=_caption(found, len(found.climbs) - len(climbs)),
        panels=panels,
        height=3.3 * len(panels),
    )


def _curve(climb: Climb, index: int, found: OverRungs) -> Iterator[fig.Series]:
    """An arm's means on the rungs, and its own curve as far as gains are carried."""
    losses, compute = climb.losses, climb.compute
    own = Climb(climb.arm, climb.arm, losses, losses, compute, compute, climb.above_zero)
    show, alpha = found.first.metric.show, found.first.alpha
    look = fig.nth_look(index)
    means, half = own.base.mean(0), half_widths(own.base, alpha)
    ends = [*map(show, means - half)], [*map(show, means + half)]
    yield from _dots(climb.arm, compute, [*map(show, means)], *ends, look.colour)
    law = own.law
    if law is None:
        return
    for compute, dashes in _stretches(climb.compute, found.times, look.dashes):
        half = own.band(compute, alpha)
        yield fig.Series(
            x=compute.tolist(),
            y=[*map(show, law.at(compute))],
            low=[*map(show, law.at(compute) - half)],
            high=[*map(show, law.at(compute) + half)],
            look=fig.LineStyle(colour=look.colour, dashes=dashes, width=1.2),
            shade=SHADE,
        )


def _gain(climb: Climb, index: int, found: OverRungs) -> Iterator[fig.Series]:
    """An arm's differences on the rungs, and the line through them."""
    change, alpha = found.first.metric.change, found.first.alpha
    look = fig.nth_look(index)
    means, half = climb.deltas.mean(0), half_widths(climb.deltas, alpha)
    ends = [*map(change, means - half)], [*map(change, means + half)]
    yield from _dots(climb.arm, climb.base_compute, [*map(change, means)], *ends, look.colour)
    compute = np.geomspace(min(climb.base_compute), max(climb.base_compute), POINTS)
    yield fig.Series(
        x=compute.tolist(),
        y=[*map(change, weights_at(climb.base_compute, compute) @ means)],
        look=fig.LineStyle(colour=look.colour, dashes=look.dashes, width=1.2),
    )


def _dots(
    name: str,
    x: Sequence[float],
    y: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    colour: str,
) -> Iterator[fig.Series]:
    """A dot on each rung; below it a bar, each a line of its own: no line joins the dots."""
    bar = fig.LineStyle(colour=colour, width=1)
    for at, bottom, top in zip(x, low, high, strict=True):
        yield fig.Series(x=[at, at], y=[bottom, top], look=bar)
    dots = fig.LineStyle(colour=colour, width=0, marker="o", size=4)
    yield fig.Series(x=x, y=y, low=low, high=high, name=name, look=dots)


def _stretches(
    compute: Sequence[float], times: float, dashes: tuple[float, ...]
) -> Iterator[tuple[np.ndarray, tuple[float, ...]]]:
    """Between the rungs, and from the largest on."""
    yield np.geomspace(min(compute), max(compute), POINTS), dashes
    if times > 1:
        yield np.geomspace(max(compute), times * max(compute), POINTS), EXTRAPOLATED


def _caption(found: OverRungs, left_out: int) -> str:
    percent = f"{100 * (1 - found.first.alpha):g}%"
    more = f" Not drawn: {left_out} more arms." if left_out else ""
    return (
        f"Above: each arm on {len(found.rungs)} rungs by its own compute; its curve, E + A C^-a. "
        f"Below: differences from the base arm by the base's compute; the line over log compute is "
        f"of their means. Bars and bands: {percent} intervals over seeds. Dashes: extrapolated, to "
        f"{found.times:g} times the largest rung.{more}"
    )
