"""What a study finds on each rung of its ladder, and over all of them.

The words over all rungs are of the saving: of how many times an arm's compute the base needs to get
where the arm is. All words of the table are one family: the gains of all arms on all rungs, and
each arm's saving on the largest rung, its trend, and what is left of it beyond. Holm's correction
is over all of these. Compute is what trials recorded: a seed's training with all that it builds on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.compare.judged import Judged
from ablate.compare.statistics import paired, trend
from ablate.compare.statistics.against import Judge
from ablate.compare.statistics.climb import Climb, climb_of, compute_of
from ablate.compare.statistics.equivalent import Equivalent, from_logs
from ablate.compare.statistics.paired import Difference
from ablate.compare.statistics.several import reservation
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.results.verdict import Verdict
from ablate.store.replication import MIN_PAIRS, counted

LARGEST, SLOPE, BEYOND = TESTS = ("largest", "slope", "beyond")  # of an arm over all rungs


@dataclass(frozen=True)
class RungRow:
    """An arm on one rung."""

    rung: str
    of: Judged
    own: ArmSummary
    compute: float | None
    gain: Comparison | None = None  # corrected over the whole ladder
    needed: Equivalent | None = None

    @property
    def arm(self) -> str:
        """The arm's name."""
        return self.own.name


@dataclass(frozen=True)
class LineTest:
    """A test of log10 of what an arm uses, over what the compared arm needs: below 0, it saves."""

    difference: Difference
    p_holm: float | None
    verdict: Verdict

    @property
    def unclear(self) -> bool:
        """Return whether the interval excludes 0 although the corrected test decided nothing."""
        low, high = self.difference.interval or (0.0, 0.0)
        return self.verdict == Verdict.UNDECIDED and low * high > 0


@dataclass(frozen=True)
class OverRow:
    """An arm over all rungs."""

    arm: str
    against: str
    of: Judged  # of the largest rung
    tests: Mapping[str, LineTest]  # none if the saving has no number on some rung
    reason: str  # why there is no verdict; empty if there is one
    needed: Equivalent | None  # on the largest rung
    change: Equivalent | None  # of what is needed, for ten times the compute
    beyond: Equivalent | None  # needed at ten times the largest rung's compute
    problem: str  # why no number says what the compared arm needs

    @property
    def unclear(self) -> bool:
        """Return whether the interval of a number that is shown excludes 1, and no word says so."""
        return not self.reason and any(test.unclear for test in self.tests.values())

    @property
    def trend(self) -> trend.Trend:
        """How the saving changes with compute."""
        return trend.trend_of(self.tests[SLOPE].verdict)

    @property
    def hold(self) -> trend.Hold:
        """Whether the saving is still shown beyond the ladder."""
        return trend.hold_of(self.tests[LARGEST].verdict, self.tests[BEYOND].verdict)

    @property
    def verdict(self) -> str:
        """The words that the table has."""
        if self.reason:
            withheld = self.of.replication.untestable
            return Verdict.WITHHELD if withheld else Verdict.UNDECIDED
        return trend.in_words(self.trend, self.hold)


@dataclass(frozen=True)
class OverRungs:
    """All that a ladder's table and figure show."""

    summaries: Sequence[Judged]  # of the rungs that have been run, from small to large
    rows: Sequence[RungRow]
    over: Sequence[OverRow]  # none until every rung has been run
    climbs: Mapping[str, Climb]
    family: int  # tests that are corrected together

    @property
    def first(self) -> Judged:
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
    lines: Mapping[tuple[str, str], Difference]  # (one of `TESTS`, arm)
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
        bounds = self.judge.interval(own.difference, own.reason, self.family)
        return replace(
            own,
            interval=self.judge.metric.changes(bounds),
            bounds=bounds,
            coverage=1 - self.judge.alpha / self.family,
            p_holm=p,
            verdict=verdict,
            less_than="",
            level=None,
            favours_arm=verdict.favours,
        )

    def of_lines(self, arm: str) -> dict[str, LineTest]:
        """The tests of an arm over all rungs."""
        found = {what: self.lines[what, arm] for what in TESTS if (what, arm) in self.lines}
        p = {what: self.corrected[what, arm] for what in found}
        return {
            what: LineTest(line, p[what], paired.verdict(line, p[what], self.judge.alpha))
            for what, line in found.items()
        }


def over_rungs(summaries: Sequence[Judged]) -> OverRungs:
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
    tested = [arm.name for arm in summaries[0].arms if arm.is_tested]
    rising = [climbs[arm] for arm in tested if arm in climbs and climbs[arm].rises]
    over = [_over_row(summaries, climb, tests) for climb in rising]
    return OverRungs(summaries, rows, over, climbs, tests.family)


def _tests(summaries: Sequence[Judged], climbs: Mapping[str, Climb]) -> _Tests:
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
        if arm in climbs:
            lines |= {
                (what, arm): _difference(of_seeds, judge)
                for what, of_seeds in _lines(climbs[arm], _times(first)).items()
            }
    found = {key: gain.difference.p for key, gain in gains.items()}
    found |= {key: line.p for key, line in lines.items()}
    family = len(tested) * (len(first.record.rungs) + len(TESTS))
    corrected = dict(zip(found, paired.holm([*found.values()], family), strict=True))
    return _Tests(judge, gains, lines, corrected, family)


def _lines(climb: Climb, times: float) -> dict[str, list[float]]:
    """What is tested of each seed's saving; nothing if it has no number on some rung."""
    logs, compute = climb.savings, climb.base_compute
    if logs is None:
        return {}
    return {
        LARGEST: logs[:, -1].tolist(),
        SLOPE: trend.slopes(compute, logs),
        BEYOND: trend.carried(compute, logs, times * compute[-1]),
    }


def _difference(of_seeds: Sequence[float], judge: Judge) -> Difference:
    tested = not judge.replication.untestable
    used = [-log for log in of_seeds]
    found = paired.paired_difference(used, alpha=judge.alpha, tested=tested)
    if found is None:
        raise ValueError("a climb has a pair on all rungs")
    return found


def _times(summary: Judged) -> float:
    return summary.record.beyond or 1.0


def _rung_row(summary: Judged, arm: ArmSummary, climb: Climb | None, tests: _Tests) -> RungRow:
    rung, compute, needed = summary.record.part, compute_of(summary, arm), None
    if climb is not None and not arm.is_base:
        needed = climb.needed(summary.record.rungs.index(rung), summary.alpha)
    return RungRow(rung, summary, arm, compute, tests.gain(rung, arm.name), needed)


def _over_row(summaries: Sequence[Judged], climb: Climb, tests: _Tests) -> OverRow:
    last = summaries[-1]
    lines = _lines(climb, _times(last)) if len(climb.losses) >= MIN_PAIRS else {}
    needed = climb.needed(len(summaries) - 1, last.alpha)
    extrapolated = {SLOPE: bool(needed and needed.beyond), BEYOND: True}
    carried = {
        what: from_logs(lines[what], last.alpha, beyond=beyond)
        for what, beyond in extrapolated.items()
        if what in lines
    }
    return OverRow(
        arm=climb.arm,
        against=climb.against,
        of=last,
        tests=tests.of_lines(climb.arm),
        reason=_reason(summaries, climb),
        needed=needed,
        change=carried.get(SLOPE),
        beyond=carried.get(BEYOND),
        problem=climb.problem,
    )


def _reason(summaries: Sequence[Judged], climb: Climb) -> str:
    """Why there is no verdict on an arm over all rungs; empty if there may be one."""
    if not summaries[0].metric.directed:
        return "neither direction is better"
    if why := reservation(summaries, climb.arm, "rungs", favours_arm=None):
        return why
    if summaries[0].replication.untestable:
        return summaries[0].replication.searches
    if (num := len(climb.losses)) < MIN_PAIRS:
        return counted(num, "pair")
    if climb.problem:
        return "no curve"
    return "" if climb.savings is not None else "no number on some rung"
