"""Best result against budget spent: the expected validation curve of each arm's search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ablate.compare.material import Material
from ablate.compare.plots import style
from ablate.compare.statistics.curves import BudgetCurve, Point, budget_curves
from ablate.config.metrics import Metric
from ablate.results.replication import counted

MOST_BANDS = 2  # more hide each other
TITLE = "Best found against budget"
NEEDS = "a search"


def draw(material: Material) -> Any:
    """Bold: in expectation (Dodge et al. 2019). Thin steps: each search as it went."""
    curves = budget_curves(material.record, material.journals)
    curves = [curve for curve in curves if len(curve.expected) > 1][: style.MAX_LINES]
    if not curves:
        return None
    figure, axes = style.figure(7.2, 3.8)
    metric = material.summary.metric
    spent = "tokens" if all(curve.expected[0].tokens > 0 for curve in curves) else "trials"
    ends = [_line(axes, curve, index, metric, spent) for index, curve in enumerate(curves)]
    if len(curves) <= MOST_BANDS:
        for index, curve in enumerate(curves):
            _band(axes, curve, index, metric, spent)
    highest = max(point.loss for curve in curves for point in curve.expected)
    lowest = min(curve.best for curve in curves)
    style.value_axis(axes, metric, metric.show(lowest), metric.show(highest))
    (style.counts if spent == "tokens" else style.whole_numbers)(axes.xaxis)
    what = "tokens trained on by the search" if spent == "tokens" else "trials of the search"
    axes.set(xlabel=what, ylabel=f"best {metric.shown} of valid")
    style.label_ends(axes, ends)
    return figure


def _line(axes: Any, curve: BudgetCurve, index: int, metric: Metric, spent: str) -> style.End:
    """Draw a curve over what was spent; return its labelled end."""
    x, means = _across(curve.expected, spent), [metric.show(p.loss) for p in curve.expected]
    axes.plot(x, means, linewidth=2, **style.line(index))
    for run in curve.as_found:
        best = [metric.show(point.loss) for point in run]
        colour = style.COLOURS[index]
        axes.step(_across(run, spent), best, where="post", linewidth=0.7, color=colour)
    return x[-1], means[-1], style.shortened(curve.arm), style.COLOURS[index]


def _band(axes: Any, curve: BudgetCurve, index: int, metric: Metric, spent: str) -> None:
    below = [metric.show(max(curve.best, p.loss - p.spread)) for p in curve.expected]
    above = [metric.show(p.loss + p.spread) for p in curve.expected]
    x, colour = _across(curve.expected, spent), style.COLOURS[index]
    axes.fill_between(x, below, above, color=colour, alpha=0.12, linewidth=0)


def _across(points: Sequence[Point], spent: str) -> list[float]:
    return [getattr(point, spent) for point in points]


def caption(material: Material) -> str:
    """Return what the curves show, and which arms are not drawn."""
    curves = budget_curves(material.record, material.journals)
    spoilt = sum(curve.num_spoilt for curve in curves)
    lost = f" {spoilt} diverged or were stopped early and count as the worst." if spoilt else ""
    more = len(curves) - style.MAX_LINES
    left = f" Not drawn: {counted(more, 'more arm')}." if more > 0 else ""
    return (
        "Best validation result against the budget of the search. Bold: in "
        "expectation over the order of the search's trials (Dodge et al. 2019; exact for random "
        f"search), and one spread where it can be shown. Thin: each search as it went.{lost}{left}"
    )
