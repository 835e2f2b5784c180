"""Verdicts: each arm against the base arm (or the arm that it names), and the best arm against all
others.

There is no verdict
- before every planned trial of both arms has ended: a table that is read while its study runs is
  one of many looks, and would be decided by the luckiest of them. Until then its interval holds at
  any time, and it has no p. What a planned look has decided (`looks.py`) stays decided while
  further seeds run;
- in favour of an arm that lost seeds: they diverged, were stopped early, or failed by their own
  code, so they were not random seeds, and the rest look better than the arm is. Other failures
  (out of memory, a killed process, a lost machine) do not depend on the loss, and only cost a
  pair. Nor is there one in favour of an imported arm without a row for a seed that the other has;
- on arms that were tuned by fewer than three searches each: see `replication.py` for what a pair
  is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from ablate.compare.statistics import anytime, equivalence, items
from ablate.compare.statistics import looks as over_time
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.family import Family
from ablate.compare.statistics.paired import Difference
from ablate.compare.statistics.possible import possible_changes, within
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.config.metrics import Metric
from ablate.results.arm import ArmResult
from ablate.results.result import AT_FLOOR, LOST, MISSING, RAISED
from ablate.results.sizes import shown_size
from ablate.results.verdict import Verdict, of_loss
from ablate.store.looks import Looks
from ablate.store.replication import Replication

TO_RUN = " to run"  # the end of a reason


@dataclass(frozen=True)
class Judge:
    """How one table decides: its metric, the level of its tests, and what repeats a result."""

    metric: Metric
    alpha: float
    replication: Replication
    looks: Looks
    margin: float | None = None  # below it, a difference does not matter: on the metric's scale
    judged_before: int = 0  # variants that were compared with the same base, elsewhere
    imported: bool = False  # an arm has rows, of which nobody planned the number

    def difference(
        self, terms: Sequence[tuple[ArmResult, float]], seeds: Sequence[int]
    ) -> Difference | None:
        """A sum of arms, each with its weight, over these seeds."""
        weighted = [
            [weight * mean for mean in self.replication.means(arm.values, seeds)]
            for arm, weight in terms
        ]
        deltas = [math.fsum(pair) for pair in zip(*weighted, strict=True)]
        # Differences far smaller than the values themselves are rounding errors.
        size = max((abs(value) for values in weighted for value in values), default=0.0)
        tested = not self.replication.untestable
        of_pairs = [self.replication.pair(group[0]) for group in self.replication.groups(seeds)]
        plain = statistics.paired_difference(deltas, size=size, alpha=self.alpha, tested=tested)
        if plain is None:
            return None
        difference = replace(plain, by_block=self._by_block(terms, seeds))
        if not tested:
            return replace(difference, interval=items.interval(difference, self.alpha))
        if self.looks.is_one and any(arm.counts.missing for arm, _ in terms):
            # The one look is still to come, and whoever reads now may stop now.
            return replace(difference, interval=anytime.interval(difference, self.alpha), p=None)
        return over_time.over_looks(difference, of_pairs, self.looks, self.alpha)

    def _by_block(
        self, terms: Sequence[tuple[ArmResult, float]], seeds: Sequence[int]
    ) -> tuple[tuple[float, ...], ...]:
        """The same sum of the deviations of each pair's blocks; empty if some are unknown, or if
        they are all that repeats a result of which there should be several."""
        groups = self.replication.groups(seeds)
        alone = self.looks.is_one and all(arm.is_alone for arm, _ in terms)
        if len(groups) == 1 and not alone:
            return ()
        if not all(index in arm.by_block for arm, _ in terms for index in seeds):
            return ()
        return tuple(_by_block(terms, group) for group in groups)

    def fates(self, arm: ArmResult, others: Sequence[ArmResult], verdict: Verdict) -> list[str]:
        """The fates of those results of an arm on which a verdict rests.

        What a look decided does not wait for seeds beyond it. Nor do the seeds count that an arm
        has after another one was decided and stopped.
        """
        stops = [other.stopped_at for other in others if other.stopped_at is not None]
        stops += [self.looks.last] if self.looks.are_several and verdict.decided else []
        end, pair = min(stops, default=None), self.replication.pair
        seeds = {at for other in others for at in other.fates} if self.imported else set[int]()
        fates = {**dict.fromkeys(seeds, RAISED), **arm.fates}
        return [fate for at, fate in fates.items() if end is None or pair(at) < end]

    def read(self, verdict: Verdict) -> Verdict:
        """The verdict in the words of the metric: of some, neither direction is better."""
        return of_loss(verdict == Verdict.BETTER, self.metric) if verdict.decided else verdict

    def comparison(
        self,
        difference: Difference,
        p_holm: float | None,
        reason: str,
        family: int,
        *,
        possible: tuple[float, float],
    ) -> Comparison:
        """The verdict on one of a family of differences, or `reason` why there is none.

        `possible` is the range of what is shown.
        """
        withheld = self.replication.untestable
        reason = self.replication.searches if withheld else reason
        verdict = self.read(statistics.verdict(difference, p_holm, self.alpha))
        below = "" if reason else self._within(difference, family)
        if reason:
            untested = withheld or reason in ("same trials", "same results")
            verdict = Verdict.WITHHELD if untested else Verdict.UNDECIDED
        elif below and not verdict.decided:
            verdict = Verdict.SAME
        varies = difference.spread or difference.is_over_blocks
        open_ = verdict == Verdict.UNDECIDED and not reason and varies
        # Over several looks, the level of the next one depends on those before.
        open_ = open_ and self.looks.is_one
        bounds = self.interval(difference, reason, family)
        shown = self.metric.changes(bounds)
        interval = shown and within(shown, possible)
        return Comparison(
            difference=difference,
            delta=self.metric.change(difference.mean),
            interval=interval,
            is_cut=interval != shown,
            bounds=bounds,
            coverage=1 - (self.alpha if withheld else self.alpha / family),
            p_holm=p_holm,
            verdict=verdict,
            reason=reason,
            less_than=below,
            level=self.alpha / family if open_ else None,
            favours_arm=verdict.favours,
        )

    def interval(
        self, difference: Difference, reason: str, family: int
    ) -> tuple[float, float] | None:
        """The interval of losses that agrees with the verdict; none where there can be no verdict.

        Whoever watches results as they come in sees the one that holds at any time.
        """
        level = self.alpha / family
        if self.replication.untestable:
            return difference.interval
        if reason.endswith(TO_RUN):
            return anytime.interval(difference, level)
        if reason:
            return None
        return over_time.deciding_interval(difference, self.looks, level)

    def _within(self, difference: Difference, family: int) -> str:
        """The margin as people read it, if the tests find a smaller difference."""
        found = self._margin_tested(equivalence.is_within, difference, family)
        return shown_size(self.margin, self.metric) if found and self.margin is not None else ""

    def keeps(self, difference: Difference, family: int) -> bool:
        """Return whether a difference, once decided, keeps its share of the error: for `same`."""
        return self._margin_tested(equivalence.may_be_within, difference, family)

    def keeping(self, differences: Sequence[Difference | None], family: Family) -> list[int]:
        """The positions of the differences that keep their share."""
        found = enumerate(differences)
        return [at for at, d in found if d is not None and self.keeps(d, family.num_for(at))]

    def _margin_tested(
        self, test: Callable[..., bool], difference: Difference, family: int
    ) -> bool:
        """A test against the margin; over planned looks, at the share of one of them."""
        if not self.looks.as_planned:  # the t intervals of unplanned looks hold at none of them
            return False
        tests = family * max(1, len(self.looks.planned))
        return test(difference, self.margin, alpha=self.alpha, comparisons=tests)


def _by_block(terms: Sequence[tuple[ArmResult, float]], seeds: Sequence[int]) -> tuple[float, ...]:
    """The sum of the arms' deviations on each block, of the mean over the seeds of one pair."""
    parts = [(weight / len(seeds), arm.by_block[at]) for arm, weight in terms for at in seeds]
    num = len(parts[0][1])
    return tuple(math.fsum(share * own[block] for share, own in parts) for block in range(num))


def compared(arms: Sequence[ArmResult], judge: Judge, family: Family) -> list[ArmSummary]:
    """The arms with their comparisons, and the best one marked. The correction is over the whole
    family: the arms, and a factorial's effects."""
    pairs = [(arm, base) for arm in arms if (base := _reference(arm, arms)) is not None]
    differences = [_difference(arm, base, judge) for arm, base in pairs]
    keeping = judge.keeping(differences, family)
    corrected = family.corrected([d and d.p for d in differences], keeping)[0]
    comparisons = {}
    tests = zip(pairs, differences, corrected, strict=True)
    for at, ((arm, base), difference, p) in enumerate(tests):
        if difference is not None:
            verdict = statistics.verdict(difference, p, judge.alpha)
            reason = _reservation(arm, base, difference, verdict, judge)
            losses = [base.values[index] for index in shared_seeds([arm, base])]
            possible = possible_changes(losses, judge.metric)
            comparisons[arm.name] = judge.comparison(
                difference, p, reason, family.num_for(at), possible=possible
            )
    best = _best(arms, judge)
    if best in comparisons and comparisons[best].verdict != Verdict.BETTER:
        best = None  # its own row says that it is not shown to be better
    return [_summary(arm, comparisons.get(arm.name), arm.name == best) for arm in arms]


def _summary(arm: ArmResult, comparison: Comparison | None, best: bool) -> ArmSummary:
    results = {field.name: getattr(arm, field.name) for field in fields(ArmResult)}
    return ArmSummary(**results, comparison=comparison, best=best)


def shared_seeds(arms: Sequence[ArmResult]) -> list[int]:
    """The seeds that all of these arms completed."""
    first, *others = arms
    return [index for index in first.values if all(index in arm.values for arm in others)]


def _reference(arm: ArmResult, arms: Sequence[ArmResult]) -> ArmResult | None:
    """The arm that an arm is compared with."""
    if arm.is_base:
        return None
    if arm.against is None:
        return next((other for other in arms if other.is_base), None)
    return next((other for other in arms if other.name == arm.against), None)


def _difference(arm: ArmResult, base: ArmResult, judge: Judge) -> Difference | None:
    return judge.difference([(arm, 1), (base, -1)], shared_seeds([arm, base]))


def _best(arms: Sequence[ArmResult], judge: Judge) -> str | None:
    """The arm that the test finds better than each of the others, if there is one.

    The candidate is picked by its mean, so its comparisons with all others are corrected as a
    family. An arm without a result could still be better: then there is no best. Nor is there one
    where neither direction is better.
    """
    with_values = [arm for arm in arms if arm.values]
    if not judge.metric.directed or len(with_values) < 2 or any(map(_unknown, arms)):
        return None
    first = min(with_values, key=lambda arm: statistics.mean([*arm.values.values()]))
    if first.counts.selected:  # without its lost seeds, the arm may look better than it is
        return None
    differences = [_difference(first, arm, judge) for arm in with_values if arm is not first]
    corrected = statistics.holm([d and d.p for d in differences])
    pairs = zip(differences, corrected, strict=True)
    better = all(statistics.verdict(d, p, judge.alpha) == Verdict.BETTER for d, p in pairs)
    return first.name if better else None


def _reservation(
    arm: ArmResult, base: ArmResult, difference: Difference, verdict: Verdict, judge: Judge
) -> str:
    """Why the test cannot decide, or not in this arm's favour; empty if it can."""
    own, others = (judge.fates(one, (arm, base), verdict) for one in (arm, base))
    if missing := (own + others).count(MISSING):
        return f"{missing}{TO_RUN}"
    if AT_FLOOR in own + others:
        return "values of 0"
    if set(arm.trials) == set(base.trials):  # arms may share trials: all differences are 0
        return "same trials"
    if difference.is_nothing:
        return "same results"
    # Lost seeds may have been the arm's worst: without them, only a verdict against it is safe.
    if lost_seeds(own) and verdict != Verdict.WORSE:
        return "lost seeds"
    if lost_seeds(others) and verdict != Verdict.BETTER:
        return "other arm lost seeds"
    if difference.is_constant:
        return "no spread"
    alone = difference.num_pairs == 1 and not difference.is_over_blocks
    return "1 pair" if alone else ""


def lost_seeds(fates: Sequence[str]) -> bool:
    """Return whether the values that are left were selected by how good they are."""
    return any(fate in LOST for fate in fates)


def _unknown(arm: ArmResult) -> bool:
    return arm.counts.missing > 0 or arm.counts.failed == arm.counts.planned
