"""Parameters against what decides, with the paper's points if they are comparable with ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ablate import papers
from ablate.compare.material import Material
from ablate.compare.plots import chosen, style
from ablate.compare.statistics.verdicts import declared, published_cells
from ablate.config.metrics import Metric
from ablate.store.study_record import StudyRecord

FAR = 4
MOST_ARMS = 40  # labels at the side
TITLE = "Parameters"
NEEDS = "arms of different numbers of parameters"


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
    ours = _ours(material)
    ours = [ours[name] for name in chosen.arms([*ours], MOST_ARMS, material)]
    points = [*ours, *_published(material)]
    if len({point.parameters for point in points}) < 2:
        return None
    figure, axes = style.figure(7.2, max(3.6, 0.8 + style.LINE_HEIGHT * len(points)))
    for point in points:
        _mark(axes, point)
    sizes, metric = [p.parameters for p in points], material.summary.metric
    axes.set(xscale="log", xlabel="parameters", xlim=(0.9 * min(sizes), 1.1 * max(sizes)))
    style.value_axis(axes, metric, *_range([p.shown for p in points], metric))
    style.plain_numbers(axes.xaxis)
    style.counts(axes.xaxis)
    axes.set_ylabel(f"{material.summary.unit} of {material.summary.split}")
    low, high = axes.get_ylim()
    ends = [
        (p.parameters, min(max(p.shown, low), high), _label(p, low, high), _colour(p))
        for p in points
    ]
    style.label_ends(axes, ends)
    return figure


def _range(values: list[float], metric: Metric) -> tuple[float, float]:
    """The best value, and the worst that is drawn: one that is far worse is a label only."""
    best, *_, worst = ordered = sorted(values, reverse=metric.better == "higher")
    median = ordered[len(ordered) // 2]
    if not metric.directed or median == best:
        return best, worst
    if style.is_logarithmic(metric, best):
        return best, min(worst, FAR * median)
    farthest = median + FAR * (median - best)
    return best, max(worst, farthest) if metric.better == "higher" else min(worst, farthest)


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


def _label(point: Point, low: float, high: float) -> str:
    name, value = style.shortened(point.name, 30), point.shown
    if low <= value <= high:
        return name
    shown = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{name} {'↑' if value > high else '↓'} {shown}"


def _colour(point: Point) -> str:
    return style.VERMILLION if point.published else style.BLUE


def _ours(material: Material) -> dict[str, Point]:
    split = material.summary.split
    return {
        arm.name: Point(
            arm.name, arm.num_parameters, arm.cells[split].mean, arm.cells[split].spread
        )
        for arm in material.summary.arms
        if arm.num_parameters and split in arm.cells
    }


def _published(material: Material) -> list[Point]:
    """The comparable cells of the study's tables, on its corpus and split, with parameters."""
    return [
        Point(_name(cell), 1e6 * (cell.parameters or 0.0), cell.value, None, True)
        for cell, reason in _judged(material)
        if not reason
    ]


def _judged(material: Material) -> list[tuple[papers.Cell, str]]:
    """The published cells that have a place here, each with why none of ours is comparable."""
    record, summary = material.record, material.summary
    if not record.published_scale:
        return []
    corpus = papers.corpus_name(record.corpus, record.level)
    cells = published_cells(record, summary.split, summary.metric)
    placed = [cell for cell in cells if cell.corpus == corpus and cell.parameters]
    return [(cell, _why_not(record, cell, summary.split)) for cell in placed]


def _why_not(record: StudyRecord, cell: papers.Cell, split: str) -> str:
    """Why no arm that stands next to the cell is comparable with it; empty if one is, or none is
    next to it."""
    arms = [arm.name for arm in record.arms if arm.published.get(split) == cell.value]
    reasons = [declared(record, arm, [cell]) for arm in arms] or [cell.not_comparable]
    return reasons[0] if all(reasons) else ""


def _name(cell: papers.Cell) -> str:
    return f"{cell.model} {cell.variant}".strip()


def caption(material: Material) -> str:
    """Return what is drawn, and why published numbers are missing."""
    record, summary = material.record, material.summary
    text = f"Parameters and {summary.unit} of {summary.split}; bars: one spread over seeds."
    left = chosen.left_out([*_ours(material)], MOST_ARMS, material)
    if not record.published_scale:
        scale = f"Scale {record.scale} is not comparable with published numbers"
        return f"{text} {scale}: none are shown.{left}"
    reasons: dict[str, list[str]] = {}
    for cell, reason in _judged(material):
        if reason:
            reasons.setdefault(reason, []).append(_name(cell))
    why = (f" Not comparable ({reason}): {', '.join(reasons[reason])}." for reason in reasons)
    source = f"{record.paper}, {', '.join(record.tables)}"
    return f"{text} Hollow diamonds: published ({source}).{''.join(why)}{left}"
