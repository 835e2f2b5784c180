"""What a table is made of: frozen data between `Judged` and the writers.

Units and losses are those of `ablate.results.arm`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ablate.compare.statistics import power, power_items
from ablate.compare.statistics.paired import Difference
from ablate.results.arm import ArmResult
from ablate.results.spread import spread
from ablate.results.verdict import Verdict
from ablate.store.replication import MIN_PAIRS


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A difference and its verdict. `delta` and `interval`: as `Metric.change` shows them."""

    difference: Difference  # of losses: below 0 is better
    delta: float
    # Of the whole table: it excludes 0 where the test does at its share of the error. None where
    # the pairs allow no verdict.
    interval: tuple[float, float] | None
    is_cut: bool  # the interval, at the end of what the metric can be
    bounds: tuple[float, float] | None  # the same of losses, and not cut
    coverage: float  # of the interval: 0.95 and more
    p_holm: float | None
    verdict: Verdict
    reason: str = ""  # why it is undecided, if not because of the test
    less_than: str = ""  # the study's margin, `1%`, where the tests find a smaller difference
    level: float | None = None  # of its test at Holm's strictest step, if more pairs may decide it
    favours_arm: bool | None = None  # decided to be better, or worse; None if neither is

    @property
    def pairs_needed(self) -> int | None:
        """The pairs that decide it with 80%; None where it is decided, or none would do."""
        if self.level is None:
            return None
        seeds, blocks = self.difference.noises
        return power.more_pairs(seeds, self.level, blocks)

    @property
    def ways(self) -> tuple[power_items.More, ...]:
        """More seeds or fresh items, of a difference that was measured on items: whichever takes
        fewer evaluations first."""
        if self.level is None or not self.difference.by_block:
            return ()
        return power_items.ways(self.difference, self.level)

    @property
    def contains_0(self) -> bool:
        """Return whether the interval leaves room for no difference."""
        low, high = self.interval or (0.0, 0.0)
        return low <= 0 <= high

    @property
    def detectable(self) -> float | None:
        """The difference of losses that these pairs would have found with 80%."""
        varies = self.difference.spread is not None and self.difference.num_pairs >= MIN_PAIRS
        return self.detectable_with(0, self.level) if varies and self.level is not None else None

    def detectable_with(self, more: int, level: float) -> float:
        """The difference of losses that so many more pairs on the same text would find with 80%."""
        seeds, blocks = self.difference.noises
        return math.hypot(_detectable(seeds, more, level), _detectable(blocks, 0, level))


def _detectable(means: Sequence[float], more: int, level: float) -> float:
    seen, num = spread(means), len(means)
    return seen * power.detectable(num + more, level, num - 1) if seen else 0.0


@dataclass(frozen=True, kw_only=True)
class ArmSummary(ArmResult):
    """A row of the table: an arm's results, and how it compares."""

    comparison: Comparison | None = None
    best: bool = False  # better than every other arm, and the corrected test says so


@dataclass(frozen=True, kw_only=True)
class Effect(Comparison):
    """One contrast."""

    name: str
    kind: str  # main, interaction, simple
    aliases: tuple[str, ...]  # other names of the same number

    @property
    def names(self) -> str:
        """The effect's name with its aliases, joined by `=`."""
        return " = ".join([self.name, *self.aliases])


@dataclass(frozen=True, kw_only=True)
class Effects:
    """The results of a factorial beyond its arms."""

    effects: tuple[Effect, ...] = ()  # main effects, then interactions: one family with the arms
    simple: tuple[Effect, ...] = ()  # within the decided interactions, at these ones' share
    readings: tuple[str, ...] = ()  # the simple effects in words
    notes: tuple[str, ...] = ()

    @property
    def every(self) -> tuple[Effect, ...]:
        """Every effect that is shown."""
        return (*self.effects, *self.simple)
