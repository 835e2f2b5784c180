"""Losses and gains against compute, on every rung of a ladder and beyond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ablate.compare.material import Material
from ablate.compare.plots import figure as fig
from ablate.compare.plots import style
from ablate.compare.plots.deltas import BETTER
from ablate.compare.statistics.climb import Climb, half_widths
from ablate.compare.statistics.ladder import OverRungs, over_rungs
from ablate.compare.statistics.trend import weights_at
from ablate.config.metrics import Metric

NEEDS = "a ladder of which every rung has been run; name it as STUDY@SCALE, without a rung"
POINTS = 25  # of a curve
EXTRAPOLATED = (2.0, 2.0)  # strokes and gaps beyond the largest rung
SHADE = 0.15
MOST_ARMS = 6


def described(material: Material) -> fig.Figure | None:
    """The figure of a ladder, of which the material has every rung."""
    if not material.rungs:
        return None
    found = over_rungs(material.rungs)
    return figure(found) if found.climbs else None


def figure(found: OverRungs) -> fig.Figure | None:
    """Left: each arm's curve. Right: the gain of each arm, with its line."""
    climbs = [c for c in found.climbs.values() if c.compute and c.rises][:MOST_ARMS]
    if not climbs:
        return None
    most = max(max(climb.compute) for climb in climbs) * found.times
    least = min(min(climb.compute) for climb in climbs)
    x = fig.Axis("operations of a seed's training", (0.7 * least, 1.4 * most), log=True)
    metric = found.first.metric
    losses = [m for i, climb in enumerate(climbs) for m in _curve(climb, i, found)]
    gains = [m for i, c in enumerate(climbs) if c.arm != c.against for m in _gain(c, i, found)]
    shown = [value for mark in losses for value in mark.y]
    best, worst = sorted((min(shown), max(shown)), reverse=metric.better == "higher")
    y = fig.value_axis(f"{metric.shown} of {found.first.split}", metric, best, worst)
    panels = [fig.Panel(x=x, y=y, marks=losses, names="legend")]
    if gains:
        change = "change in %" if metric.in_percent else "difference"
        y = fig.Axis(f"{change} from the base arm ({BETTER[metric.better]})")
        grey = fig.Look(colour=style.GREY, width=0.7)
        zero = fig.Series(x=[0.7 * least, 1.4 * most], y=[0, 0], look=grey)
        panels.append(fig.Panel(x=x, y=y, marks=[zero, *gains], names="legend"))
    return fig.Figure(
        title="Over the rungs of the ladder",
        caption=_caption(found, len(found.climbs) - len(climbs)),
        panels=panels,
        width=3.6 * len(panels) + 1.4,
        columns=len(panels),
    )


def _curve(climb: Climb, index: int, found: OverRungs) -> Iterator[fig.Series]:
    """An arm's means on the rungs, and its own curve as far as gains are carried."""
    losses, compute = climb.losses, climb.compute
    own = Climb(climb.arm, climb.arm, losses, losses, compute, compute, climb.above_zero)
    show, alpha = found.first.metric.show, found.first.alpha
    look = fig.nth_look(index)
    dots = fig.Look(colour=look.colour, width=0, marker="o", size=4)
    means, half = own.base.mean(0), half_widths(own.base, alpha)
    yield fig.Series(
        x=climb.compute,
        y=[*map(show, means)],
        low=[*map(show, means - half)],
        high=[*map(show, means + half)],
        name=climb.arm,
        look=dots,
        cap=2,
    )
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
            look=fig.Look(colour=look.colour, dashes=dashes, width=1.2),
            shade=SHADE,
        )


def _gain(climb: Climb, index: int, found: OverRungs) -> Iterator[fig.Series]:
    """An arm's differences on the rungs, and the line through them."""
    metric, alpha = found.first.metric, found.first.alpha
    look = fig.nth_look(index)
    dots = fig.Look(colour=look.colour, width=0, marker="o", size=4)
    yield _changes(climb.base_compute, climb.deltas, metric, alpha, climb.arm, dots, 0)
    for compute, dashes in _stretches(climb.base_compute, found.times, look.dashes):
        lines = climb.deltas @ weights_at(climb.base_compute, compute).T
        drawn = fig.Look(colour=look.colour, dashes=dashes, width=1.2)
        yield _changes(compute.tolist(), lines, metric, alpha, "", drawn, SHADE)


def _changes(
    x: Sequence[float],
    of_pairs: np.ndarray,
    metric: Metric,
    alpha: float,
    name: str,
    look: fig.Look,
    shade: float,
) -> fig.Series:
    """The mean difference at each place, with its t interval."""
    means, half = of_pairs.mean(0), half_widths(of_pairs, alpha)
    ends = {"low": [*map(metric.change, means - half)], "high": [*map(metric.change, means + half)]}
    return fig.Series(
        x=x,
        y=[*map(metric.change, means)],
        name=name,
        look=look,
        shade=shade,
        cap=2 if name else 0,
        **ends,
    )


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
        f"Left: each arm on {len(found.rungs)} rungs by its own compute, and its curve E + A C^-a. "
        f"Right: differences from the base arm by the base's compute, with the line over log "
        f"compute. Bars and bands: {percent} intervals over seeds. Dashes: extrapolated, to "
        f"{found.times:g} times the largest rung.{more}"
    )
