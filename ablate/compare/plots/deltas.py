"""What each arm bought: its difference from the base arm with its interval (a forest plot)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ablate.compare.formats import Table, table_of
from ablate.compare.judged import Judged
from ablate.compare.plots import chosen, style
from ablate.compare.plots import figure as fig
from ablate.compare.table import columns
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.compare.text.figures import changed
from ablate.compare.text.labels import labels
from ablate.config.metrics import Metric
from ablate.store.replication import plural

MOST_ARMS = 60  # rows
FARTHEST = 6  # medians from 0; values beyond are cut off, with an arrow, so that others are visible
BELOW = 0.27  # rows, of the dots under an interval
NEEDS = "a base arm and another, with results"
COLOURS = {True: style.BLUE, False: style.VERMILLION, None: style.BLACK}  # better, worse
MARKERS = {True: "o", False: "s", None: "D"}
BETTER = {
    "lower": "← lower is better",
    "higher": "higher is better →",
    "neither": "neither direction is better",
}


def described(judged: Judged) -> fig.Figure | None:
    """A row for each arm; filled if the corrected test decides, hollow if not."""
    compared = _compared(judged)
    shown = [compared[name] for name in chosen.arms([*compared], MOST_ARMS, judged)]
    if not shown:
        return None
    metric, digits = judged.metric, columns.decimals(judged)
    better, reach = BETTER[metric.better], _reach([each for _, each in shown], metric)
    lowest = min(reach, 100) if metric.in_percent else reach  # nothing is below -100%
    before = "the row above" if len(shown) == len(compared) else "the arm before it"
    against = before if judged.record.design == "path" else judged.record.base_arm
    difference = f"{_of(metric)} of {judged.split}, {_from(metric)} {against}"
    table = [[a.name, columns.delta(a, metric, digits), columns.verdict(a)] for a, _ in shown]
    texts = {name: "\n".join([name, *others]) for name, *others in table}
    rows = [*enumerate(reversed(shown))]  # from the bottom, so that the first arm is at the top
    names = [*enumerate(reversed(_names([arm.name for arm, _ in shown], judged)))]
    panel = fig.Panel(
        x=fig.Axis(f"{better}      {difference}", (-1.05 * lowest, 1.05 * reach)),
        y=fig.Axis(limits=(-0.6, len(rows) - 0.4), ticks=names, grid=False),
        marks=[
            fig.Rule(0),
            *(_dots(row, each, metric, reach) for row, (_, each) in rows),
            *(m for row, (a, each) in rows for m in _row(row, each, reach, texts[a.name])),
        ],
        margin_notes=[(row, "  ".join(texts)) for row, (_, *texts) in enumerate(reversed(table))],
    )
    return fig.Figure(
        title="Difference of each arm",
        caption=_caption(judged) + chosen.left_out([*compared], MOST_ARMS, judged),
        panels=[panel],
        height=1.1 + 0.27 * len(rows),
        own_table=_numbers(table, [each for _, each in shown], difference, judged),
    )


def _of(metric: Metric) -> str:
    """What the differences are of."""
    return f"odds of {metric.shown}" if metric.scale == "logit" else metric.shown


def _from(metric: Metric) -> str:
    return "change in % from that of" if metric.in_percent else "less that of"


def _numbers(
    rows: Sequence[Sequence[str]],
    comparisons: Sequence[Comparison],
    difference: str,
    judged: Judged,
) -> Table:
    """The figure in numbers, with the difference of each pair."""
    metric, digits = judged.metric, columns.decimals(judged)
    pairs = [
        ", ".join(changed(metric, metric.change(d), None, digits) for d in each.difference.deltas)
        for each in comparisons
    ]
    each = f"each {judged.replication.unit}"
    body = [[*row, own] for row, own in zip(rows, pairs, strict=True)]
    return table_of(["arm", difference, "verdict", each], body, left=["verdict", each])


def _compared(judged: Judged) -> dict[str, tuple[ArmSummary, Comparison]]:
    """The arms that have a comparison, by name."""
    pairs = ((arm, arm.comparison) for arm in judged.arms)
    return {arm.name: (arm, comparison) for arm, comparison in pairs if comparison is not None}


def _names(arms: Sequence[str], judged: Judged) -> list[str]:
    """The arms' names, each with the arm that it is compared with, unless the axis names that."""
    elsewhere = columns.elsewhere_noted(judged)
    if not elsewhere:
        return labels(arms)
    others = dict(zip(elsewhere, labels([*elsewhere.values()], 18), strict=True))
    named = zip(arms, labels(arms, 24), strict=True)
    return [f"{name} (less {others[arm]})" if arm in others else name for arm, name in named]


def _reach(comparisons: Sequence[Comparison], metric: Metric) -> float:
    """How far the axis goes: to all pairs and ends of intervals, except those far from all others.

    An arm that is better is always within the axis.
    """
    deltas = sorted(abs(comparison.delta) for comparison in comparisons)
    typical = max(deltas[len(deltas) // 2], 1e-9)  # all may be 0
    near = [
        abs(end)
        for comparison in comparisons
        for end in (comparison.interval or (comparison.delta,))
        if comparison.favours_arm or abs(end) <= FARTHEST * typical
    ]
    pairs = (abs(metric.change(d)) for each in comparisons for d in each.difference.deltas)
    return max([*near, *(size for size in pairs if size <= FARTHEST * typical), typical])


def _dots(row: int, comparison: Comparison, metric: Metric, reach: float) -> fig.Series:
    """The difference of each pair, below the interval; those beyond the axis are left out."""
    pairs = [metric.change(delta) for delta in comparison.difference.deltas]
    within = [pair for pair in pairs if abs(pair) <= reach]
    look = fig.LineStyle(colour=style.GREY, width=0, marker="o", size=2.5)
    return fig.Series(x=within, y=[row - BELOW] * len(within), look=look)


def _row(row: int, comparison: Comparison, reach: float, about: str) -> Iterator[fig.Series]:
    """The interval as far as the axis goes, an arrow at a cut end, and the difference."""
    delta, colour = comparison.delta, COLOURS[comparison.favours_arm]
    low, high = comparison.interval or (delta, delta)

    def at(*x: float, **look: Any) -> fig.Series:
        return fig.Series(
            x=x, y=[row] * len(x), look=fig.LineStyle(colour=colour, **look), about=about
        )

    yield at(*(min(max(end, -reach), reach) for end in (low, high)), width=1.6)
    if low < -reach:
        yield at(-reach, marker="<")
    if high > reach:
        yield at(reach, marker=">")
    if abs(delta) <= reach:
        form, hollow = MARKERS[comparison.favours_arm], comparison.favours_arm is None
        yield at(delta, marker=form, size=6, hollow=hollow)


def _caption(judged: Judged) -> str:
    """Describe the differences, their intervals and the marks."""
    replication = judged.replication
    base = "the arm before" if judged.record.design == "path" else "the base arm"
    other = ", or from the one in brackets," if columns.elsewhere_noted(judged) else ""
    level = columns.coverage(judged)
    paired = f"Differences from {base}{other} with {level} intervals, paired over"
    dots = f"Dots: each {replication.unit}."
    if replication.untestable:
        return (
            f"{paired} seeds of the settings found by {replication.searches} an arm: there is no "
            f"verdict, and all diamonds are hollow. {dots} An arrow: beyond the plot."
        )
    return (
        f"{paired} {plural(replication.unit)}. Filled: better (circle) or worse (square) by the "
        f"Holm-corrected test; hollow diamonds are undecided. {dots} An arrow: beyond "
        "the plot."
    )
