"""Best result against budget spent: the expected validation curve of each arm's search."""

from __future__ import annotations

from typing import Any

from ablate.compare.material import Material
from ablate.compare.plots import Plot, style
from ablate.compare.statistics.curves import BudgetCurve, Point, budget_curves

MOST_BANDS = 2  # more hide each other


def draw(material: Material) -> Any:
    """Bold: in expectation (Dodge et al. 2019). Thin steps: each search as it went."""
    found = budget_curves(material.record, material.journals)
    found = [curve for curve in found if len(curve.expected) > 1][: style.MAX_LINES]
    if not found:
        return None
    figure, ((axes,),) = style.figure(7.2, 3.8)
    tokens = all(curve.expected[0].tokens > 0 for curve in found)
    ends = []
    for index, curve in enumerate(found):
        x, mean = _line(axes, curve, index, material, tokens)
        if len(found) <= MOST_BANDS:
            _band(axes, curve, index, material, tokens)
        ends.append((x, mean, style.shortened(curve.arm), style.COLOURS[index]))
    axes.set_yscale("log")
    axes.set_ylim(*_limits(found, material))
    style.plain_numbers(axes.yaxis)
    (style.counts if tokens else style.whole_numbers)(axes.xaxis)
    axes.set_xlabel("tokens trained on by the search" if tokens else "trials of the search")
    axes.set_ylabel(f"best {material.summary.unit} of valid")
    figure.draw_without_rendering()
    style.labels_beside(axes, ends)
    return figure


def _line(
    axes: Any, curve: BudgetCurve, index: int, material: Material, tokens: bool
) -> tuple[float, float]:
    """Draw a curve; return its last point."""
    show = material.unit.show

    def across(points: tuple[Point, ...]) -> list[float]:
        return [point.tokens if tokens else point.trials for point in points]

    x, means = across(curve.expected), [show(point.nats) for point in curve.expected]
    axes.plot(x, means, linewidth=2, **style.line(index))
    for run in curve.as_found:
        found = [show(point.nats) for point in run]
        axes.step(across(run), found, where="post", linewidth=0.7, color=style.COLOURS[index])
    return x[-1], means[-1]


def _band(axes: Any, curve: BudgetCurve, index: int, material: Material, tokens: bool) -> None:
    show = material.unit.show
    x = [point.tokens if tokens else point.trials for point in curve.expected]
    below = [show(max(curve.best, p.nats - p.spread)) for p in curve.expected]
    above = [show(p.nats + p.spread) for p in curve.expected]
    axes.fill_between(x, below, above, color=style.COLOURS[index], alpha=0.12, linewidth=0)


def _limits(found: list[BudgetCurve], material: Material) -> tuple[float, float]:
    show = material.unit.show
    low = min(curve.best for curve in found)
    high = max(point.nats for curve in found for point in curve.expected)
    return 0.97 * show(low), 1.05 * show(high)


def caption(material: Material) -> str:
    curves = budget_curves(material.record, material.journals)
    spoilt = sum(curve.num_spoilt for curve in curves)
    lost = f" {spoilt} diverged or were stopped early and count as the worst." if spoilt else ""
    more = len(curves) - style.MAX_LINES
    left = f" {more} more arms are not drawn." if more > 0 else ""
    return (
        "Best validation loss against the budget of the search. Bold: in "
        "expectation over the order of the search's trials (Dodge et al. 2019; exact for random "
        f"search), and one spread where it can be shown. Thin: each search as it went.{lost}{left}"
    )


PLOT = Plot(draw=draw, caption=caption, needs="a search")
