"""What to run next, so that what is undecided becomes decided: `drop: 4 more seeds, 80%`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ablate.compare.judged import Judged
from ablate.compare.statistics.power import MAX_PAIRS, POWER
from ablate.compare.statistics.power_items import MOST_TIMES
from ablate.compare.table.answer import shown_ways
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.results.verdict import Verdict
from ablate.store.looks import Looks
from ablate.store.outcome import TEXT
from ablate.store.replication import MIN_PAIRS, counted

LOST = ("lost seeds", "other arm lost seeds")


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to run of an arm next."""

    arm: str
    more: int | None  # pairs; None where no number of further ones would help
    why: str

    def __str__(self) -> str:
        return f"{self.arm}: {self.why}"


def advice(summary: Judged) -> Iterator[Advice]:
    """Yield what to run of each arm that is compared and not decided."""
    base = summary.record.base_arm
    for arm in summary.arms:
        if not arm.is_base:
            more, why = _next(arm, summary, arm.against or base)
            if why:
                yield Advice(arm=arm.name, more=more, why=why)


def _next(arm: ArmSummary, summary: Judged, base: str) -> tuple[int | None, str]:
    tested, looks, blocks = arm.comparison, summary.looks, summary.blocks
    if tested is None:
        return MIN_PAIRS, f"{MIN_PAIRS} {looks.unit}s that it shares with '{base}'"
    if tested.verdict != Verdict.UNDECIDED:
        return None, ""
    if tested.reason in LOST:
        return None, "no more seeds help: find out why runs ended without a number"
    if tested.reason == "values of 0":
        return None, "no more seeds help: a metric on a linear scale compares values of 0"
    num = tested.difference.num_pairs
    if blocks is not None and blocks.unit != TEXT and tested.ways:
        return tested.pairs_needed, f"{shown_ways(tested, blocks)}, {POWER:.0%}"
    if tested.difference.is_over_blocks:
        return None, f"nothing: {MOST_TIMES} times as many do not reach {POWER:.0%}"
    if num < MIN_PAIRS:
        return MIN_PAIRS - num, f"{_more(MIN_PAIRS - num, looks)}: no test decides with fewer"
    return _undecided(tested, looks, num)


def _undecided(tested: Comparison, looks: Looks, num: int) -> tuple[int | None, str]:
    if tested.pairs_needed is not None:
        return tested.pairs_needed, f"{_more(tested.pairs_needed, looks)}, {POWER:.0%}"
    ahead = next((at for at in looks.planned if at > num), None)
    if looks.are_several and ahead is not None:
        return ahead - num, f"{_more(ahead - num, looks)}, up to the planned look at {ahead}"
    if not looks.as_planned:
        return None, "fresh seeds, judged once: these have been looked at without a plan"
    if tested.level is None:
        return None, ""
    return None, (
        f"nothing: {MAX_PAIRS} {looks.unit}s do not reach {POWER:.0%}. A margin can show that a "
        "difference is too small to matter"
    )


def _more(num: int, looks: Looks) -> str:
    seeds = counted(num, looks.unit)
    return seeds.replace(" ", " more ", 1)
