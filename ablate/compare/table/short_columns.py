"""The columns of a study's table that answer its question; `full_table.py` has every column."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

from ablate.compare.formats import Best, Column, Drawn
from ablate.compare.judged import LONG_NAME, Judged
from ablate.compare.table import columns as shown
from ablate.compare.table.costs import cost_ratio
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.compare.text.figures import NONE, changed, count, decimal
from ablate.config.metrics import Metric
from ablate.store.replication import plural

FARTHEST = 6  # medians from 0, beyond which an interval is cut so that others can be seen
NICE = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)  # ends of an axis, times a power of ten


def short_columns(judged: Judged) -> list[Column]:
    """Arm, parameters, the metrics, the difference with its interval, seeds, cost and verdict."""
    metric, digits = judged.metric, shown.decimals(judged)
    tested = attrgetter("comparison")
    sized = any(arm.num_parameters is not None for arm in judged.arms)
    params = Column("params", lambda arm: count(arm.num_parameters), spare=2)
    further = enumerate(judged.record.columns)
    return [
        *shown.name_columns(judged),
        *([params] if sized else []),
        _level(judged, digits),
        *(_further(index, each, judged) for index, each in further),
        _delta(judged, digits),
        drawn_column([arm.comparison for arm in judged.arms], metric).about(_or_base),
        Column(_wins_heading(judged), _wins, spare=5).about(tested),
        *_cost(judged),
        Column("verdict", _verdict, left=True, first=1),
    ]


def _level(judged: Judged, digits: int) -> Column:
    def cell(arm: ArmSummary) -> str | Best:
        cell = arm.cells.get(judged.split)
        text = NONE if cell is None else decimal(cell.mean, digits)
        return Best(text) if arm.best else text

    return Column(judged.shown_split, cell, first=1)


def _further(index: int, metric: Metric, judged: Judged) -> Column:
    def cell(arm: ArmSummary) -> str:
        found = arm.others[index].cells.get(shown.split_of(metric, judged))
        return NONE if found is None else decimal(found.mean, metric.digits)

    return replace(shown.other_metric(index, metric, judged), of=cell, apart=False, spare=3)


def _delta(judged: Judged, digits: int) -> Column:
    def cell(arm: ArmSummary) -> str:
        return "base" if arm.is_base else shown.delta(arm, judged.metric, digits)

    return Column(_delta_heading(judged), cell, left=True, first=1)


def _delta_heading(judged: Judged) -> str:
    """`Δ from LSTM [98.3%]`; without a name where arms are compared with several others."""
    name = judged.record.base_arm
    of = judged.replication.interval_of.removeprefix(" of the ")
    level = f"[{shown.coverage(judged)}{', of the ' + of if of else ''}]"
    if not any(arm.comparison and arm.comparison.interval for arm in judged.arms):
        level = ""
    if judged.record.design == "path":
        name = "the row above"
    elif judged.elsewhere:
        return f"{shown.delta_name(judged)} {level}".rstrip()
    whole = f"{shown.delta_name(judged)} from {judged.called(name)}"
    gap = " " if len(whole) + len(level) < LONG_NAME else "\n"
    return f"{whole}{gap if level else ''}{level}"


def effect_columns(judged: Judged) -> list[Column]:
    """A factorial's effects, in the same words."""
    digits, effects = shown.decimals(judged), judged.effects.every if judged.effects else ()
    heading = f"{shown.delta_name(judged)} [{shown.coverage(judged)}]"
    return [
        Column("effect", attrgetter("names"), left=True),
        Column(heading, lambda e: changed(judged.metric, e.delta, e.interval, digits), left=True),
        drawn_column(effects, judged.metric),
    ]


def _or_base(arm: ArmSummary) -> Comparison | ArmSummary | None:
    """What a drawing is of: the base arm's row has the axis alone."""
    return arm if arm.is_base else arm.comparison


def drawn_column(compared: Iterable[Comparison | None], metric: Metric) -> Column:
    """Every interval in its row, on one axis."""
    reach, unit = _reach([one for one in compared if one]), "%" if metric.in_percent else ""

    def cell(row: Comparison | ArmSummary) -> Drawn:
        if isinstance(row, ArmSummary):
            return Drawn(reach, unit)
        pairs = tuple(map(metric.change, row.difference.deltas))
        return Drawn(reach, unit, row.delta, row.interval, row.verdict.decided, pairs)

    return Column(axis_heading(reach, unit), cell, drawn=True, spare=1)


def axis_heading(reach: float, unit: str) -> str:
    """The heading of a drawing: both ends of its axis."""
    return " to ".join(Drawn(reach, unit).ends_of_axis)


def _reach(compared: list[Comparison]) -> float:
    """Where the axis ends: at a round number beyond all ends of intervals that are not far off.
    What is better is always within."""
    ends = [(one, abs(end)) for one in compared for end in (one.interval or (one.delta,))]
    sizes = sorted(size for _, size in ends if size)  # arms that are the same say nothing of it
    typical = sizes[len(sizes) // 2] if sizes else 0.0
    near = [size for one, size in ends if one.favours_arm or size <= FARTHEST * typical]
    return axis_end(max(near, default=0.0))


def axis_end(largest: float) -> float:
    """The round number at which an axis ends that has room for the largest value."""
    if largest == 0 or not math.isfinite(largest):
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(nice * power for nice in NICE if nice * power >= largest * (1 - 1e-9))


def _wins_heading(judged: Judged) -> str:
    blocks = judged.blocks
    units = str(blocks) if blocks and blocks.alone else plural(judged.replication.unit)
    return units if judged.metric.directed else f"lower on\n{units}"


def _wins(tested: Comparison) -> str:
    """On how many of the pairs the arm is better; of one training each, of the items that
    differ."""
    deltas = tested.difference.that_differ
    return f"{sum(delta < 0 for delta in deltas)}/{len(deltas)}"


def _cost(judged: Judged) -> list[Column]:
    """What an arm's training cost, in costs of the arm that it is compared with."""
    ratios = {arm.name: cost_ratio(arm, judged) for arm in judged.arms}
    if {_times(ratio) for ratio in ratios.values()} <= {"", _times(1.0)}:
        return []
    return [Column("cost", lambda arm: _times(ratios[arm.name]), spare=4)]


def _times(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"×{ratio:.2f}" if ratio < 10 else f"×{ratio:.3g}"


def _verdict(arm: ArmSummary) -> str:
    """The verdict; of an arm that is not finished, what is missing."""
    tested = arm.comparison
    if tested is not None and (tested.reason in shown.ALIKE or tested.less_than):
        return shown.verdict(arm)
    if tested is not None and tested.reason.endswith("to run"):
        return tested.reason
    return tested.verdict if tested else "" if arm.is_base else NONE
