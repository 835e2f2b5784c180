"""What each arm bought: its difference from the base arm with its interval (a forest plot)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ablate.compare.formats import table_of_values
from ablate.compare.material import Material
from ablate.compare.plots import chosen, style
from ablate.compare.plots import figure as fig
from ablate.compare.table import columns
from ablate.compare.table.rows import ArmSummary, Comparison, Summary
from ablate.results.replication import plural

MOST_ARMS = 60  # rows
FARTHEST = 6  # medians from 0; values beyond are cut off, with an arrow, so that others are visible
NEEDS = "a base arm and another, with results"
FILLED = (
    "Filled: better (circle) or worse (square) by the Holm-corrected test; hollow diamonds are "
    "undecided."
)
ARROW = " An arrow: beyond the plot."
COLOURS = {True: style.BLUE, False: style.VERMILLION, None: style.BLACK}  # better, worse
MARKERS = {True: "o", False: "s", None: "D"}
BETTER = {
    "lower": "← lower is better",
    "higher": "higher is better →",
    "neither": "neither direction is better",
}


def described(material: Material) -> fig.Figure | None:
    """A row for each arm; filled if the corrected test decides, hollow if not."""
    summary = material.summary
    compared = _compared(summary)
    shown = [compared[name] for name in chosen.arms([*compared], MOST_ARMS, material)]
    if not shown:
        return None
    rows = [*enumerate(reversed(shown))]
    digits = columns.decimals(summary)
    reach = _reach([comparison for _, comparison in shown])
    before = "the row above" if len(shown) == len(compared) else "the arm before it"
    against = before if material.record.design == "path" else material.record.base_arm
    difference = f"{summary.unit} of {summary.split}, less that of {against}"
    x = fig.Axis(
        f"{BETTER[summary.metric.better]}      {difference}", (-1.05 * reach, 1.05 * reach)
    )
    names = [(row, _name(arm.name, summary)) for row, (arm, _) in rows]
    panel = fig.Panel(
        x=x,
        y=fig.Axis(limits=(-0.6, len(rows) - 0.4), ticks=names, grid=False),
        marks=[fig.Rule(0), *(m for row, (_, c) in rows for m in _row(row, c, reach))],
        beside=[
            (row, f"{columns.delta(arm, digits)}  {columns.verdict(arm)}") for row, (arm, _) in rows
        ],
    )
    return fig.Figure(
        title="What each arm bought",
        caption=_caption(material) + chosen.left_out([*compared], MOST_ARMS, material),
        panels=[panel],
        height=1.1 + 0.27 * len(rows),
        own_table=table_of_values(
            ["arm", difference, "from", "to", "verdict"],
            [
                [arm.name, c.delta, *(c.interval or (None, None)), columns.verdict(arm)]
                for arm, c in shown
            ],
        ),
    )


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


def _row(row: int, comparison: Comparison, reach: float) -> Iterator[fig.Series]:
    """The interval as far as the axis goes, arrows where it goes on, and the difference."""
    delta, colour = comparison.delta, COLOURS[comparison.helps]
    low, high = comparison.interval or (delta, delta)

    def at(*x: float, **look: Any) -> fig.Series:
        return fig.Series(x=x, y=[row] * len(x), look=fig.Look(colour=colour, **look))

    yield at(*(min(max(end, -reach), reach) for end in (low, high)), width=1.6)
    if low < -reach:
        yield at(-reach, marker="<")
    if high > reach:
        yield at(reach, marker=">")
    if abs(delta) <= reach:
        form, hollow = MARKERS[comparison.helps], comparison.helps is None
        yield at(delta, marker=form, size=6, hollow=hollow)


def _caption(material: Material) -> str:
    """Which differences and intervals these are."""
    replication = material.summary.replication
    other = ", or from the one in brackets," if columns.elsewhere_noted(material.summary) else ""
    path = material.record.design == "path"
    differences = f"Differences from {'the arm before' if path else 'the base arm'}{other}"
    percent = f"{100 * (1 - material.summary.alpha):g}%"
    if replication.of_settings_found:
        over = f"seeds of the settings found by {replication.searches} an arm"
        filled = "there is no verdict, and all diamonds are hollow"
        return f"{differences} with {percent} intervals, paired over {over}: {filled}.{ARROW}"
    over = plural(replication.unit)
    return f"{differences} with {percent} intervals, paired over {over}. {FILLED}{ARROW}"
