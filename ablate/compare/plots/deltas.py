"""What each arm bought: its difference from the base arm with its interval (a forest plot)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ablate.compare.material import Material
from ablate.compare.plots import chosen, style
from ablate.compare.table import columns
from ablate.compare.table.rows import ArmSummary, Comparison, Summary
from ablate.results.replication import plural

MOST_ARMS = 60  # rows
FARTHEST = 6  # medians from 0; values beyond are cut off, with an arrow, so that others are visible
TITLE = "What each arm bought"
NEEDS = "a base arm and another, with results"
COLOURS = {True: style.BLUE, False: style.VERMILLION, None: style.BLACK}  # better, worse
MARKERS = {True: "o", False: "s", None: "D"}
BETTER = {
    "lower": "← lower is better",
    "higher": "higher is better →",
    "neither": "neither direction is better",
}


def draw(material: Material) -> Any:
    """A row for each arm; filled if the corrected test decides, hollow if not."""
    summary = material.summary
    compared = _compared(summary)
    rows = [compared[name] for name in reversed(chosen.arms([*compared], MOST_ARMS, material))]
    if not rows:
        return None
    figure, axes = style.figure(7.2, 1.1 + 0.27 * len(rows))
    reach, digits = _reach([comparison for _, comparison in rows]), columns.decimals(summary)
    axes.axvline(0, color=style.BLACK, linewidth=0.8)
    for row, (arm, comparison) in enumerate(rows):
        _row(axes, row, comparison, reach)
        text = columns.with_interval(comparison.delta, comparison.interval, digits)
        right = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8}
        axes.text(1.02, row, f"{text}  {columns.verdict(arm)}", **right)
    axes.set_yticks(range(len(rows)), [_name(arm.name, summary) for arm, _ in rows])
    axes.set(xlim=(-reach * 1.05, reach * 1.05), ylim=(-0.6, len(rows) - 0.4))
    axes.grid(axis="y", visible=False)
    before = "the row above" if len(rows) == len(compared) else "the arm before it"
    against = before if material.record.design == "path" else material.record.base_arm
    better = BETTER[summary.metric.better]
    axes.set_xlabel(f"{better}      {summary.unit} of {summary.split}, less that of {against}")
    return figure


def _compared(summary: Summary) -> dict[str, tuple[ArmSummary, Comparison]]:
    """The arms that have a comparison, by name."""
    pairs = ((arm, arm.comparison) for arm in summary.arms)
    return {arm.name: (arm, comparison) for arm, comparison in pairs if comparison is not None}


def _name(arm: str, summary: Summary) -> str:
    """With the arm that it is compared with, unless the axis says so."""
    other = columns.elsewhere_noted(summary).get(arm)
    if other is None:
        return style.shortened(arm)
    return f"{style.shortened(arm, 24)} (less {style.shortened(other, 18)})"


def _reach(comparisons: Sequence[Comparison]) -> float:
    """How far the axis goes: to every interval's end, except those far from all others; an arm that
    is better is always within it."""
    deltas = sorted(abs(comparison.delta) for comparison in comparisons)
    typical = max(deltas[len(deltas) // 2], 1e-9)
    near = [
        abs(end)
        for comparison in comparisons
        for end in (comparison.interval or (comparison.delta,))
        if comparison.helps or abs(end) <= FARTHEST * typical
    ]
    return max([*near, typical])


def _row(axes: Any, row: int, comparison: Comparison, reach: float) -> None:
    delta, colour = comparison.delta, COLOURS[comparison.helps]
    low, high = comparison.interval or (delta, delta)
    ends = [min(max(end, -reach), reach) for end in (low, high)]
    axes.plot(ends, [row, row], color=colour, linewidth=1.6)
    if low < -reach:
        axes.plot(-reach, row, marker="<", color=colour, ms=5)
    if high > reach:
        axes.plot(reach, row, marker=">", color=colour, ms=5)
    if abs(delta) <= reach:
        filled = "white" if comparison.helps is None else colour
        form = MARKERS[comparison.helps]
        axes.plot(delta, row, form, ms=6, color=colour, markerfacecolor=filled)


def caption(material: Material) -> str:
    """Return which differences and intervals these are, and which arms are left out."""
    replication = material.summary.replication
    other = ", or from the one in brackets," if columns.elsewhere_noted(material.summary) else ""
    path = material.record.design == "path"
    differences = f"Differences from {'the arm before' if path else 'the base arm'}{other}"
    left = chosen.left_out([*_compared(material.summary)], MOST_ARMS, material)
    paired = f"{100 * (1 - material.summary.alpha):g}% intervals, paired over"
    if replication.of_settings_found:
        return (
            f"{differences} with {paired} seeds of the "
            f"settings found by {replication.searches} an arm: there is no verdict, and all "
            f"diamonds are hollow. An arrow: beyond the plot.{left}"
        )
    return (
        f"{differences} with {paired} "
        f"{plural(replication.unit)}. Filled: better (circle) or worse (square) by the "
        f"Holm-corrected test; hollow diamonds are undecided. An arrow: beyond the plot.{left}"
    )
