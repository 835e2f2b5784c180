"""What each arm bought: its difference from the base arm with its interval (a forest plot)."""

from __future__ import annotations

from typing import Any

from ablate.compare.material import Material
from ablate.compare.plots import Plot, style
from ablate.compare.statistics.paired import HIGHER, LOWER
from ablate.compare.statistics.replication import plural
from ablate.compare.table import columns
from ablate.compare.table.rows import ArmSummary, Comparison

FARTHEST = (
    6  # medians from 0; farther values are cut off, with an arrow, so that others are visible
)
COLOURS = {LOWER: style.BLUE, HIGHER: style.VERMILLION}
MARKERS = {LOWER: "o", HIGHER: "s"}


def draw(material: Material) -> Any:
    """A row for each arm; filled if the corrected test decides, hollow if not."""
    arms = [arm for arm in material.summary.arms if arm.comparison is not None]
    if not arms:
        return None
    figure, ((axes,),) = style.figure(7.2, 1.1 + 0.27 * len(arms))
    reach = _reach([arm.comparison for arm in arms if arm.comparison])
    axes.axvline(0, color=style.BLACK, linewidth=0.8)
    for row, arm in enumerate(reversed(arms)):
        if arm.comparison:
            _row(axes, row, arm.comparison, reach)
            _written(axes, row, arm, material)
    axes.set_yticks(range(len(arms)), [style.shortened(arm.name) for arm in reversed(arms)])
    axes.set_ylim(-0.6, len(arms) - 0.4)
    axes.set_xlim(-reach * 1.05, reach * 1.05)
    axes.grid(axis="y", visible=False)
    against = "the row above" if material.record.design == "path" else material.record.base_arm
    axes.set_xlabel(
        f"← lower is better      {material.summary.unit} of {material.summary.split}, "
        f"less that of {against}"
    )
    return figure


def _reach(found: list[Comparison]) -> float:
    """How far the axis goes: to every interval's end, except those far from all others; an arm that
    is lower is always within it."""
    deltas = sorted(abs(each.delta) for each in found)
    typical = max(deltas[len(deltas) // 2], 1e-9)
    near = [
        abs(end)
        for each in found
        for end in (each.interval or (each.delta,))
        if each.verdict == LOWER or abs(end) <= FARTHEST * typical
    ]
    return max([*near, typical])


def _row(axes: Any, row: int, found: Comparison, reach: float) -> None:
    colour = COLOURS.get(found.verdict, style.BLACK)
    low, high = found.interval or (found.delta, found.delta)
    axes.plot([max(low, -reach), min(high, reach)], [row, row], color=colour, linewidth=1.6)
    for end, side in ((low, -1), (high, 1)):
        if abs(end) > reach and end * side > 0:
            axes.plot(side * reach, row, marker=">" if side > 0 else "<", color=colour, ms=5)
    if abs(found.delta) <= reach:
        filled = colour if found.verdict in COLOURS else "white"
        form = MARKERS.get(found.verdict, "D")
        axes.plot(found.delta, row, form, ms=6, color=colour, markerfacecolor=filled)


def _written(axes: Any, row: int, arm: ArmSummary, material: Material) -> None:
    """The numbers and the verdict to the right: nobody should have to measure a plot."""
    if arm.comparison is None:
        return
    digits = columns.decimals(material.summary)
    text = columns.with_interval(arm.comparison.delta, arm.comparison.interval, digits)
    axes.annotate(
        f"{text}  {columns.verdict(arm)}",
        (1.02, row),
        xycoords=("axes fraction", "data"),
        va="center",
        fontsize=8,
        annotation_clip=False,
    )


def caption(material: Material) -> str:
    percent = 100 * (1 - material.summary.alpha)
    replication = material.summary.replication
    if replication.of_settings_found:
        return (
            f"Differences from the base arm with {percent:g}% intervals, paired over seeds of the "
            f"settings found by {replication.searches} an arm: there is no verdict, and all "
            "diamonds are hollow. An arrow: beyond the plot."
        )
    return (
        f"Differences from the base arm with {percent:g}% intervals, paired over "
        f"{plural(replication.unit)}. Filled: lower (circle) or higher (square) by the "
        "Holm-corrected test; hollow diamonds are undecided. An arrow: beyond the plot."
    )


PLOT = Plot(draw=draw, caption=caption, needs="a base arm and another, with results")
