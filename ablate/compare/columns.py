"""The columns of a study's table, and how their numbers are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ablate.compare import statistics
from ablate.compare.figures import NONE, count, decimal, signed
from ablate.compare.rows import ArmSummary, Cell, Summary
from ablate.compare.units import BITS

Writer = Callable[[str], str]


@dataclass(frozen=True)
class Column:
    """One column: its title (of one line or two) and what it says of an arm."""

    title: str
    cell: Callable[[ArmSummary], str]
    expendable: int | None = None  # left out, in this order, where there is no room
    left: bool = False  # aligned left

    @property
    def name(self) -> str:
        return self.title.replace("\n", " ")


def columns(summary: Summary, best: Writer) -> list[Column]:
    """Those that this table has something for. `best` marks the value of the best arm."""
    digits = decimals(summary)

    def split_cell(split: str) -> Callable[[ArmSummary], str]:
        def written(arm: ArmSummary) -> str:
            text = mean_and_spread(arm.cells.get(split), digits)
            return best(text) if arm.best and split == summary.split else text

        return written

    read = [s for s in ("valid", "test") if any(s in arm.cells for arm in summary.arms)]
    splits = read or [summary.split]
    found = [
        Column("arm", lambda arm: arm.name),
        *([] if summary.whole else [Column("n", _completed)]),
        Column("params", lambda arm: count(arm.num_parameters), 4),
        *(
            Column(split, split_cell(split), None if split == summary.split else 6)
            for split in splits
        ),
        Column("above\nfloor", lambda arm: above_floor(arm.cells.get(summary.split), summary), 5),
        Column(_delta_title(summary), lambda arm: _delta(arm, digits)),
        Column("Holm\np", lambda arm: p_value(arm.comparison and arm.comparison.p_holm), 2),
        Column(
            "sign-flip\np",
            lambda arm: p_value(arm.comparison and arm.comparison.difference.p_sign_flip),
            1,
        ),
        Column("effect\nsize", _effect_size, 0),
        Column("verdict", verdict, left=True),
    ]
    return [column for column in found if summary.floor or column.title != "above\nfloor"]


def mean_and_spread(cell: Cell | None, digits: int) -> str:
    if cell is None:
        return NONE
    spread = "" if cell.spread is None else f"±{decimal(cell.spread, digits)}"
    return f"{decimal(cell.mean, digits)}{spread}"


def above_floor(cell: Cell | None, summary: Summary) -> str:
    """How far from the best possible: in percent of perplexity, or in bits."""
    if cell is None or cell.above_floor is None or cell.floor_ratio is None:
        return NONE
    if summary.unit == BITS:
        return signed(cell.above_floor / math.log(2), 3)
    percent = 100 * (cell.floor_ratio - 1)
    return f"{signed(percent, 1)}%" if percent < 1000 else f"×{decimal(cell.floor_ratio, 0)}"


def verdict(arm: ArmSummary) -> str:
    """lower, higher or undecided, and then how many seeds more."""
    found = arm.comparison
    if found is None:
        return NONE if not arm.is_base else ""
    return found.verdict if found.reason else with_more_seeds(found.verdict, found.more_seeds)


def with_more_seeds(found: str, more_seeds: int | None) -> str:
    """A verdict, and how many seeds more would probably decide it."""
    if found != statistics.UNDECIDED:
        return found
    return f"{found} >{statistics.MAX_SEEDS}" if more_seeds is None else f"{found} +{more_seeds}"


def decimals(summary: Summary) -> int:
    """As many as a paper would print; the same for a whole table, so that columns line up."""
    if summary.unit == BITS:
        return 3
    means = [cell.mean for arm in summary.arms for cell in arm.cells.values()]
    typical = sorted(means)[len(means) // 2] if means else 0.0
    return 2 if typical < 100 else 1 if typical < 10_000 else 0


def _completed(arm: ArmSummary) -> str:
    return f"{arm.counts.completed}/{arm.counts.planned}"


def _delta_title(summary: Summary) -> str:
    against = "row above" if summary.record.design == "path" else "base"
    return f"Δ {against}, {summary.split}\n[{100 * (1 - summary.alpha):g}% interval]"


def _delta(arm: ArmSummary, digits: int) -> str:
    if arm.is_base:
        return "base arm"
    if arm.comparison is None:
        return NONE
    return with_interval(arm.comparison.delta, arm.comparison.interval, digits)


def _effect_size(arm: ArmSummary) -> str:
    found = arm.comparison and arm.comparison.difference.effect_size
    return "" if found is None else signed(found, 1)


def with_interval(delta: float, interval: tuple[float, float] | None, digits: int) -> str:
    text = signed(delta, digits)
    if interval is None:
        return text
    low, high = interval
    return f"{text} [{signed(low, digits)}, {signed(high, digits)}]"


def p_value(p: float | None) -> str:
    if p is None:
        return ""
    return "<.001" if p < 0.001 else "1" if p > 0.9995 else f"{p:.3f}".lstrip("0")
