"""Best result against budget spent: the expected validation curve of each arm's search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ablate.compare.judged import Judged
from ablate.compare.plots import figure as fig
from ablate.compare.plots import style
from ablate.compare.statistics.curves import BudgetCurve, BudgetPoint, budget_curves
from ablate.config.metrics import Metric
from ablate.store.replication import counted

MOST_BANDS = 2  # more hide each other
NEEDS = "a search"


def described(judged: Judged) -> fig.Figure | None:
    """Bold: over all choices of N trials. Thin steps: each search as it went."""
    every, metric = budget_curves(judged), judged.metric
    curves = [curve for curve in every if len(curve.expected) > 1][: style.MAX_LINES]
    if not curves:
        return None
    x = fig.Axis("trials of the search", numbers="whole")
    # Not every task reports tokens.
    by_tokens = all(curve.expected[0].tokens > 0 for curve in curves)
    if by_tokens:
        x = fig.Axis("tokens trained on by the search", numbers="counts")
    lowest = min(curve.best for curve in curves)
    highest = max(point.loss for curve in curves for point in curve.expected)
    best = f"best {metric.shown} of valid"
    y = fig.value_axis(best, metric, metric.show(lowest), metric.show(highest))
    shade = 0.12 if len(curves) <= MOST_BANDS else 0
    lines = [_lines(c, i, metric, by_tokens, shade) for i, c in enumerate(curves)]
    marks = [line for each in lines for line in each]
    panels = [fig.Panel(x=x, y=y, marks=marks, names="ends")]
    return fig.Figure(title="Best found against budget", caption=_caption(every), panels=panels)


def _lines(
    curve: BudgetCurve, index: int, metric: Metric, by_tokens: bool, shade: float
) -> Iterator[fig.Series]:
    """An arm's expected best with its spread, and each of its searches as it went."""

    def over(points: Sequence[BudgetPoint], **more: Any) -> fig.Series:
        x = [point.tokens if by_tokens else point.trials for point in points]
        return fig.Series(x=x, y=[metric.show(point.loss) for point in points], **more)

    bold = fig.nth_look(index, width=2)
    # One spread below the mean may lie below the best trial, which no search of these can beat.
    below = [metric.show(max(curve.best, p.loss - p.spread)) for p in curve.expected]
    above = [metric.show(p.loss + p.spread) for p in curve.expected]
    yield over(curve.expected, name=curve.arm, look=bold, low=below, high=above, shade=shade)
    thin = fig.LineStyle(colour=bold.colour, width=0.7)
    yield from (over(run, look=thin, steps=True) for run in curve.as_found)


def _caption(curves: Sequence[BudgetCurve]) -> str:
    spoilt = sum(curve.num_spoilt for curve in curves)
    lost = f" {spoilt} ended without a result and count as the worst." if spoilt else ""
    more = len(curves) - style.MAX_LINES
    left = f" Not drawn: {counted(more, 'more arm')}." if more > 0 else ""
    return (
        "Best validation result against the budget of the search. Bold: the best of N trials, "
        "averaged over all choices of N of the search's, and one spread where it can be shown. "
        f"Thin: each search as it went.{lost}{left}"
    )
