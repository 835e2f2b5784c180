"""The columns of a study's table, and how their numbers are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ablate.compare.formats import Best, Column
from ablate.compare.statistics import paired as statistics
from ablate.compare.table.rows import ArmSummary, Comparison, Summary
from ablate.compare.text.figures import NONE, count, decimal, signed
from ablate.config.metrics import BITS, PERPLEXITY, SPLIT, SPLITS
from ablate.results.arm import Cell

ArmColumn = tuple[Column, Callable[[ArmSummary], Any]]  # and its cell for an arm


def arm_columns(summary: Summary) -> list[ArmColumn]:
    """The columns that this table has values for."""
    digits, decides = decimals(summary), summary.split
    splits = [s for s in SPLITS if any(s in arm.cells for arm in summary.arms)] or [decides]
    p_columns = [
        _of_comparison(Column("Holm\np", drop=2), lambda c: p_value(c.p_holm)),
        _of_comparison(Column("sign-flip\np", drop=1), lambda c: p_value(c.difference.p_sign_flip)),
    ]
    return [
        (Column("arm", left=True), lambda arm: arm.name),
        *([] if all(arm.counts.whole for arm in summary.arms) else [(Column("n"), _completed)]),
        (Column("params", drop=4), lambda arm: count(arm.num_parameters)),
        *(_split_column(split, decides, digits) for split in splits),
        *_other_metrics(summary),
        *([_floor_column(summary)] if summary.floor else []),
        (Column(_delta_heading(summary)), lambda arm: delta(arm, digits)),
        *([] if summary.replication.of_settings_found else p_columns),
        _of_comparison(Column("effect\nsize", drop=0), lambda c: _effect_size(c, summary)),
        (Column("verdict", left=True), verdict),
    ]


def _of_comparison(column: Column, show: Callable[[Comparison], str]) -> ArmColumn:
    return column, lambda arm: show(arm.comparison) if arm.comparison else ""


def _split_column(split: str, decides: str, digits: int) -> ArmColumn:
    def cell(arm: ArmSummary) -> str | Best:
        text = mean_and_spread(arm.cells.get(split), digits)
        return Best(text) if arm.best and split == decides else text

    return Column(split, drop=None if split == decides else 6), cell


def _other_metrics(summary: Summary) -> list[ArmColumn]:
    """Further metrics that the study shows, on the split that decides."""
    return [_other_metric(index, summary) for index in range(len(summary.record.columns))]


def _other_metric(index: int, summary: Summary) -> ArmColumn:
    metric = summary.record.columns[index]
    split = summary.split if metric.of == SPLIT else metric.of

    def cell(arm: ArmSummary) -> str:
        return mean_and_spread(arm.others[index].cells.get(split), metric.digits)

    return Column(metric.shown + (f"\n{split}" if metric.of == SPLIT else ""), drop=7), cell


def _floor_column(summary: Summary) -> ArmColumn:
    column = Column("above\nfloor", drop=5)
    return column, lambda arm: above_floor(arm.cells.get(summary.split), summary)


def mean_and_spread(cell: Cell | None, digits: int) -> str:
    """Return `mean±spread`, or a dash without a value."""
    if cell is None:
        return NONE
    spread = "" if cell.spread is None else f"±{decimal(cell.spread, digits)}"
    return f"{decimal(cell.mean, digits)}{spread}"


def above_floor(cell: Cell | None, summary: Summary) -> str:
    """How far from the best possible: in percent of perplexity, or in bits."""
    if cell is None or cell.above_floor is None or cell.floor_ratio is None:
        return NONE
    if summary.metric == BITS:
        return signed(cell.above_floor / math.log(2), 3)
    percent = 100 * (cell.floor_ratio - 1)
    return f"{signed(percent, 1)}%" if percent < 1000 else f"×{decimal(cell.floor_ratio, 0)}"


def verdict(arm: ArmSummary) -> str:
    """Return an arm's verdict with the seeds that would decide it; the base arm has none."""
    if arm.comparison is None:
        return NONE if not arm.is_base else ""
    return with_more(arm.comparison)


def with_more(tested: Comparison) -> str:
    """lower, higher, or undecided and how many more pairs would probably decide it."""
    if tested.reason or tested.verdict != statistics.UNDECIDED:
        return tested.verdict
    more = f">{statistics.MAX_PAIRS}" if tested.more is None else f"+{tested.more}"
    return f"{tested.verdict} {more}"


def decimals(summary: Summary) -> int:
    """As many as a paper would print; the same for a whole table, so that columns line up."""
    if summary.metric != PERPLEXITY:
        return summary.metric.digits
    means = [cell.mean for arm in summary.arms for cell in arm.cells.values()]
    typical = sorted(means)[len(means) // 2] if means else 0.0
    return 2 if typical < 100 else 1 if typical < 10_000 else 0


def interval_heading(summary: Summary) -> str:
    """`95% interval`, and of what, if not of the arms."""
    return f"{100 * (1 - summary.alpha):g}% interval{summary.replication.interval_of}"


def _completed(arm: ArmSummary) -> str:
    return f"{arm.counts.completed}/{arm.counts.planned}"


def _delta_heading(summary: Summary) -> str:
    """Where some arms have another arm to be compared with, a note names it."""
    against = " row above" if summary.record.design == "path" else " base"
    shown = "" if elsewhere_noted(summary) else against
    interval = interval_heading(summary).replace(" of the", " of\nthe")
    return f"Δ{shown}, {summary.split}\n[{interval}]"


def elsewhere_noted(summary: Summary) -> dict[str, str]:
    """`Summary.elsewhere`, without a path's, where it is always the row above."""
    return {} if summary.record.design == "path" else summary.elsewhere


def delta(arm: ArmSummary, digits: int) -> str:
    """Return an arm's difference with its interval, or that it is the base arm."""
    if arm.is_base:
        return "base arm"
    if arm.comparison is None:
        return NONE
    return with_interval(arm.comparison.delta, arm.comparison.interval, digits)


def _effect_size(comparison: Comparison, summary: Summary) -> str:
    size = comparison.difference.effect_size
    return "" if size is None else signed(summary.metric.natural(size), 1)


def with_interval(delta: float, interval: tuple[float, float] | None, digits: int) -> str:
    """Return `+0.12 [-0.03, +0.27]`, or the number alone."""
    text = signed(delta, digits)
    if interval is None:
        return text
    low, high = interval
    return f"{text} [{signed(low, digits)}, {signed(high, digits)}]"


def p_value(p: float | None) -> str:
    """Return p without its leading zero, or nothing if there was no test."""
    if p is None:
        return ""
    return "<.001" if p < 0.001 else "1" if p >= 0.9995 else f"{p:.3f}".lstrip("0")
