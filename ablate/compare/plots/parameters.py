"""Parameters against what decides, with the paper's points if they are comparable with ours."""

from __future__ import annotations

from typing import Any

from ablate import papers
from ablate.compare.judged import Judged
from ablate.compare.plots import chosen, style
from ablate.compare.plots import figure as fig
from ablate.compare.statistics.verdicts import declared, published_cells
from ablate.config.metrics import Metric

FAR = 4  # times the median, or its distance from the best: points beyond are labels only
MOST_ARMS = 40  # labels at the side
NEEDS = "arms of different numbers of parameters"
OURS = fig.LineStyle(colour=style.BLUE, marker="o", width=1)
PUBLISHED = fig.LineStyle(colour=style.VERMILLION, marker="D", width=1, hollow=True)


def described(judged: Judged) -> fig.Figure | None:
    """A point for each arm, labelled at the side; hollow diamonds are published."""
    ours = _ours(judged)
    points = [ours[name] for name in chosen.arms([*ours], MOST_ARMS, judged)]
    points += _published(judged)
    sizes = [point.x[0] for point in points]
    if len({*sizes}) < 2:
        return None
    unit = f"{judged.unit} of {judged.split}"
    panel = fig.Panel(
        x=fig.Axis("parameters", (0.9 * min(sizes), 1.1 * max(sizes)), log=True, numbers="counts"),
        y=fig.value_axis(unit, judged.metric, *_range([p.y[0] for p in points], judged.metric)),
        marks=points,
        names="ends",
        longest=30,
    )
    return fig.Figure(
        title="Parameters",
        caption=_caption(judged) + chosen.left_out([*ours], MOST_ARMS, judged),
        panels=[panel],
        height=max(3.6, 0.8 + style.LINE_HEIGHT * len(points)),
    )


def _point(name: str, parameters: float, shown: float, **more: Any) -> fig.Series:
    return fig.Series(x=[parameters], y=[shown], name=name, cap=2, **more)


def _range(values: list[float], metric: Metric) -> tuple[float, float]:
    """The best value, and the worst that is drawn: one that is far worse is a label only."""
    best, *_, worst = ordered = sorted(values, reverse=metric.better == "higher")
    median = ordered[len(ordered) // 2]
    if not metric.directed or median == best:
        return best, worst
    if fig.is_logarithmic(metric, best):
        return best, min(worst, FAR * median)
    farthest = median + FAR * (median - best)
    return best, max(worst, farthest) if metric.better == "higher" else min(worst, farthest)


def _ours(judged: Judged) -> dict[str, fig.Series]:
    """A point for each arm, with one spread over seeds."""
    split, points = judged.split, {}
    for arm in judged.arms:
        if arm.num_parameters and split in arm.cells:
            cell = arm.cells[split]
            bar = [] if cell.spread is None else [cell.mean - cell.spread, cell.mean + cell.spread]
            ends = {"low": bar[:1], "high": bar[1:]}
            points[arm.name] = _point(arm.name, arm.num_parameters, cell.mean, look=OURS, **ends)
    return points


def _published(judged: Judged) -> list[fig.Series]:
    """The comparable cells of the study's tables, on its corpus and split, with parameters."""
    return [
        # Papers print millions.
        _point(_name(cell), 1e6 * (cell.parameters or 0.0), cell.value, look=PUBLISHED)
        for cell, reason in _judged(judged)
        if not reason
    ]


def _judged(judged: Judged) -> list[tuple[papers.Cell, str]]:
    """The published cells of this corpus and split, each with a reason not to compare it."""
    record = judged.record
    if not record.published_scale:
        return []
    corpus = papers.corpus_name(record.corpus, record.level)
    cells = published_cells(record, judged.split, judged.metric)
    placed = [cell for cell in cells if cell.corpus == corpus and cell.parameters]
    return [(cell, _why_not(judged, cell)) for cell in placed]


def _why_not(judged: Judged, cell: papers.Cell) -> str:
    """The reason not to compare a published cell with any of its arms; empty if one arm may be.

    A cell without an arm has its own reason.
    """
    record = judged.record
    arms = [arm.name for arm in record.arms if arm.published.get(judged.split) == cell.value]
    reasons = [declared(record, arm, [cell]) for arm in arms] or [cell.not_comparable]
    return reasons[0] if all(reasons) else ""


def _name(cell: papers.Cell) -> str:
    return f"{cell.model} {cell.variant}".strip()


def _caption(judged: Judged) -> str:
    """What is drawn, and why published numbers are missing."""
    record = judged.record
    text = f"Parameters and {judged.unit} of {judged.split}; bars: one spread over seeds."
    if not record.published_scale:
        scale = f"Scale {record.scale} is not comparable with published numbers"
        return f"{text} {scale}: none are shown."
    reasons: dict[str, list[str]] = {}
    for cell, reason in _judged(judged):
        if reason:
            reasons.setdefault(reason, []).append(_name(cell))
    why = (f" Not comparable ({reason}): {', '.join(reasons[reason])}." for reason in reasons)
    source = f"{record.paper}, {', '.join(record.tables)}"
    return f"{text} Hollow diamonds: published ({source}).{''.join(why)}"
