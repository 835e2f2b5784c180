"""What a study finds on each rung of its ladder, and over all of them.

All words of the table are one family: the gains of all arms on all rungs, their trends, and what is
left of them beyond the largest rung. Holm's correction is over all of these. Compute is what trials
recorded: a seed's training with all that it builds on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ablate.compare.statistics import paired, trend
from ablate.compare.statistics.against import Judge
from ablate.compare.statistics.climb import Climb, climb_of, compute_of
from ablate.compare.statistics.equivalent import Equivalent
from ablate.compare.statistics.paired import Difference
from ablate.compare.statistics.several import reservation
from ablate.compare.table.rows import ArmSummary, Comparison, Summary
from ablate.results.replication import MIN_PAIRS, counted
from ablate.results.verdict import Verdict

EVERYTHING = (-math.inf, math.inf)
SLOPE, BEYOND = "slope", "beyond"  # the tests of an arm over all rungs


@dataclass(frozen=True)
class RungRow:
    """An arm on one rung."""

    rung: str
    of: Summary
    own: ArmSummary
    compute: float | None
    gain: Comparison | None = None  # corrected over the whole ladder
    needed: Equivalent | None = None

    @property
    def arm(self) -> str:
        """The arm's name."""
        return self.own.name


@dataclass(frozen=True)
class OverRow:
    """An arm over all rungs."""

    arm: str
    against: str
    of: Summary  # of the largest rung
    slope: Comparison  # for ten times the compute
    beyond: Comparison  # the line at `Ladder.beyond` times the largest rung's compute
    trend: trend.Trend
    hold: trend.Hold
    needed: Equivalent | None  # on the largest rung
    change: Equivalent | None  # of what is needed, for ten times the compute
    problem: str  # why no number says what the compared arm needs

    @property
    def reason(self) -> str:
        """Why there is no verdict; empty if there is one."""
        return self.slope.reason

    @property
    def verdict(self) -> str:
        """The words that the table has."""
        return self.slope.verdict if self.reason else trend.in_words(self.trend, self.hold)


@dataclass(frozen=True)
class OverRungs:
    """All that a ladder's table and figure show."""

    summaries: Sequence[Summary]  # of the rungs that have been run, from small to large
    rows: Sequence[RungRow]
    over: Sequence[OverRow]  # none until every rung has been run
    climbs: Mapping[str, Climb]
    family: int  # tests that are corrected together

    @property
    def first(self) -> Summary:
        """The summary of the smallest rung."""
        return self.summaries[0]

    @property
    def rungs(self) -> tuple[str, ...]:
        """The names of all rungs."""
        return self.first.record.rungs

    @property
    def missing(self) -> list[str]:
        """The rungs on which the study has not been run yet."""
        run = {summary.record.part for summary in self.summaries}
        return [rung for rung in self.rungs if rung not in run]

    @property
    def times(self) -> float:
        """To how many times the largest rung's compute gains are carried."""
        return _times(self.first)


@dataclass(frozen=True)
class _Tests:
    """The differences of a ladder, and their p-values after the correction over all of them."""

    judge: Judge
    gains: Mapping[tuple[str, str], Comparison]  # (rung, arm)
    lines: Mapping[tuple[str, str], Difference]  # (slope or beyond, arm)
    corrected: Mapping[tuple[str, str], float | None]
    family: int

    def gain(self, rung: str, arm: str) -> Comparison | None:
        """The gain of an arm on a rung."""
        own = self.gains.get((rung, arm))
        if own is None:
            return None
        p, verdict = self.corrected[rung, arm], own.verdict
        if not own.reason:
            verdict = self.judge.read(paired.verdict(own.difference, p, self.judge.alpha))
        return replace(own, p_holm=p, verdict=verdict, within="", level=None, helps=verdict.favours)

    def line(self, what: str, arm: str, reason: str) -> Comparison:
        """The slope of an arm's line, or its end, or `reason` why there is no verdict on it."""
        difference, p = self.lines[what, arm], self.corrected[what, arm]
        judged = self.judge.comparison(difference, p, reason, self.family, possible=EVERYTHING)
        return replace(judged, level=None)


def over_rungs(summaries: Sequence[Summary]) -> OverRungs:
    """The rows of each rung; then those over all, if every rung has been run."""
    record = summaries[0].record
    whole = len(summaries) == len(record.rungs)
    alike = len({(one.metric, one.split) for one in summaries}) == 1
    found = (climb_of(summaries, arm.name) for arm in summaries[0].arms if whole and alike)
    climbs = {climb.arm: climb for climb in found if climb is not None}
    tests = _tests(summaries, climbs)
    rows = [
        _rung_row(summary, arm, climbs.get(arm.name), tests)
        for summary in summaries
        for arm in summary.arms
    ]
    over = [_over_row(summaries, climbs[arm], tests) for what, arm in tests.lines if what == SLOPE]
    return OverRungs(summaries, rows, over, climbs, tests.family)


def _tests(summaries: Sequence[Summary], climbs: Mapping[str, Climb]) -> _Tests:
    first = summaries[0]
    judge = Judge(first.metric, first.alpha, first.replication, first.looks)
    tested = [arm.name for arm in first.arms if arm.is_tested]
    gains = {
        (summary.record.part, arm.name): arm.comparison
        for summary in summaries
        for arm in summary.arms
        if arm.name in tested and arm.comparison
    }
    lines = {}
    for arm in tested:
        climb = climbs.get(arm)
        if climb is not None and climb.rises:
            lines[SLOPE, arm] = _difference(climb, climb.slopes, judge)
            lines[BEYOND, arm] = _difference(climb, climb.carried(_times(first)), judge)
    found = {key: gain.difference.p for key, gain in gains.items()}
    found |= {key: line.p for key, line in lines.items()}
    family = len(tested) * (len(first.record.rungs) + 2)
    corrected = dict(zip(found, paired.holm([*found.values()], family), strict=True))
    return _Tests(judge, gains, lines, corrected, family)


def _difference(climb: Climb, deltas: Sequence[float], judge: Judge) -> Difference:
    tested = not judge.replication.of_settings_found
    size = float(np.abs(climb.losses).max())
    found = paired.paired_difference(deltas, size=size, alpha=judge.alpha, tested=tested)
    if found is None:
        raise ValueError(f"{climb.arm} has no pair on all rungs")
    return found


def _times(summary: Summary) -> float:
    return summary.record.beyond or 1.0


def _rung_row(summary: Summary, arm: ArmSummary, climb: Climb | None, tests: _Tests) -> RungRow:
    rung, compute, needed = summary.record.part, compute_of(summary, arm), None
    if climb is not None and not arm.is_base:
        needed = climb.needed(summary.record.rungs.index(rung), summary.alpha)
    return RungRow(rung, summary, arm, compute, tests.gain(rung, arm.name), needed)


def _over_row(summaries: Sequence[Summary], climb: Climb, tests: _Tests) -> OverRow:
    last = summaries[-1]
    reason = _reason(summaries, climb)
    slope = tests.line(SLOPE, climb.arm, reason)
    beyond = tests.line(BEYOND, climb.arm, reason)
    gain = tests.gain(last.record.part, climb.arm)
    return OverRow(
        arm=climb.arm,
        against=climb.against,
        of=last,
        slope=slope,
        beyond=beyond,
        trend=trend.trend_of(slope.verdict),
        hold=trend.hold_of(gain.verdict if gain else Verdict.UNDECIDED, beyond.verdict),
        needed=climb.needed(len(summaries) - 1, last.alpha),
        change=climb.needed_change(last.alpha),
        problem=climb.problem,
    )


def _reason(summaries: Sequence[Summary], climb: Climb) -> str:
    """Why there is no verdict on an arm over all rungs; empty if there may be one."""
    if not summaries[0].metric.directed:
        return "neither direction is better"
    if why := reservation(summaries, climb.arm, "rungs", helps=None):
        return why
    num = len(climb.losses)
    return "" if num >= MIN_PAIRS else counted(num, "pair")
