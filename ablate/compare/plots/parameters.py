"""Parameters against perplexity, with the paper's points if they are comparable with ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ablate import papers
from ablate.compare.material import Material
from ablate.compare.plots import Plot, style
from ablate.compare.text.units import BITS


@dataclass(frozen=True)
class Point:
    """One model: ours, or the paper's."""

    name: str
    parameters: float
    shown: float
    spread: float | None = None
    published: bool = False


def draw(material: Material) -> Any:
    """A point for each arm, labelled at the side; hollow diamonds are published."""
    points = [*_ours(material), *_published(material)]
    if len({point.parameters for point in points}) < 2:
        return None
    figure, ((axes,),) = style.figure(7.2, max(3.6, 0.8 + style.LINE_HEIGHT * len(points)))
    for point in points:
        _mark(axes, point)
    values = [point.shown for point in points]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.96 * min(values), 1.04 * _top(values))
    style.plain_numbers(axes.yaxis)
    _ticks(axes, [point.parameters for point in points])
    axes.set_xlabel("parameters")
    axes.set_ylabel(f"{material.summary.unit} of {material.summary.split}")
    figure.draw_without_rendering()
    top = axes.get_ylim()[1]
    ends = [(p.parameters, min(p.shown, top), _label(p, top), _colour(p)) for p in points]
    style.labels_beside(axes, ends)
    return figure


def _mark(axes: Any, point: Point) -> None:
    form = {"marker": "D", "markerfacecolor": "white"} if point.published else {"marker": "o"}
    error = None if point.spread is None else [point.spread]
    axes.errorbar(
        point.parameters,
        point.shown,
        yerr=error,
        color=_colour(point),
        ms=5,
        linewidth=1,
        capsize=2,
        **form,
    )


def _top(values: list[float]) -> float:
    """At most four times the median: what is worse is labelled, not shown."""
    return min(max(values), 4 * sorted(values)[len(values) // 2])


def _label(point: Point, top: float) -> str:
    name = style.shortened(point.name, 30)
    return f"{name} ↑ {point.shown:.0f}" if point.shown > top else name


def _colour(point: Point) -> str:
    return style.VERMILLION if point.published else style.BLUE


def _ticks(axes: Any, parameters: list[float]) -> None:
    """Round numbers of parameters within the axis."""
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = 0.9 * min(parameters), 1.1 * max(parameters)
    axes.set_xlim(low, high)
    steps = (1, 2, 5) if high / low > 4 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    round_ones = [step * 10**power for power in range(1, 13) for step in steps]
    axes.xaxis.set_major_locator(FixedLocator([x for x in round_ones if low <= x <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    style.counts(axes.xaxis)


def _ours(material: Material) -> list[Point]:
    split = material.summary.split
    return [
        Point(arm.name, arm.num_parameters, arm.cells[split].mean, arm.cells[split].spread)
        for arm in material.summary.arms
        if arm.num_parameters and split in arm.cells
    ]


def _published(material: Material) -> list[Point]:
    """The cells of the study's tables, on its corpus and split, whose parameters are printed."""
    record, metric = material.record, "bpc" if material.summary.unit == BITS else "ppl"
    corpus = papers.corpus_name(record.corpus, record.level)
    wanted = (corpus, material.summary.split, metric)
    if not record.published_scale or record.paper not in papers.ids():
        return []
    return [
        Point(f"{cell.model} {cell.variant}".strip(), 1e6 * cell.parameters, cell.value, None, True)
        for cell in papers.load(record.paper).cells
        if cell.table in record.tables
        and (cell.corpus, cell.split, cell.metric) == wanted
        and cell.parameters
    ]


def caption(material: Material) -> str:
    record = material.record
    text = f"Parameters and {material.summary.unit} of {material.summary.split}; bars: one spread"
    text += " over seeds."
    if record.published_scale:
        return f"{text} Hollow diamonds: published ({record.paper}, {', '.join(record.tables)})."
    return f"{text} Scale {record.scale} is not comparable with published numbers: none are shown."


PLOT = Plot(draw=draw, caption=caption, needs="arms of different numbers of parameters")
