"""Verdicts: each arm against the base arm (or the one that it names), and the best arm against all
others.

There is no verdict
- before every planned trial of both arms has ended: a table that is read while its study runs is
  one of many looks, and would be decided by the luckiest of them;
- in favour of an arm that lost seeds to divergence or early stopping: those were not random
  seeds, and the rest look better than the arm is. A failure (out of memory, a lost machine) does
  not depend on the loss, and only costs a pair;
- on arms that were tuned by fewer than three searches each: see `replication.py` for what a pair
  is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.paired import HIGHER, LOWER, NO_VERDICT, UNDECIDED, Difference
from ablate.compare.statistics.replication import Replication
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.compare.text.units import Unit


@dataclass(frozen=True)
class Against:
    """The arms of one table, against their base."""

    arms: Sequence[ArmSummary]
    unit: Unit
    alpha: float
    replication: Replication

    @property
    def base(self) -> ArmSummary | None:
        return next((arm for arm in self.arms if arm.is_base), None)

    @property
    def others(self) -> list[ArmSummary]:
        return [arm for arm in self.arms if not arm.is_base]

    def reference(self, arm: ArmSummary) -> ArmSummary | None:
        """The arm that an arm is compared with."""
        if arm.against is None:
            return self.base
        return next((other for other in self.arms if other.name == arm.against), None)

    def compared(self) -> list[ArmSummary]:
        """The arms with their comparisons, corrected over all of them, and the best one marked."""
        best = self._best()
        references = [(arm, self.reference(arm)) for arm in self.others]
        differences = {a.name: self._difference(a, b) for a, b in references if b is not None}
        corrected = statistics.holm([d and d.p for d in differences.values()])
        comparisons = {
            name: self._comparison(name, found, p)
            for (name, found), p in zip(differences.items(), corrected, strict=True)
            if found is not None
        }
        return [
            replace(arm, comparison=comparisons.get(arm.name), best=arm.name == best)
            for arm in self.arms
        ]

    def _comparison(self, name: str, found: Difference, p_holm: float | None) -> Comparison:
        arm = next(arm for arm in self.arms if arm.name == name)
        base = self.reference(arm)
        if base is None:
            raise ValueError(f"{name} was compared with nothing")
        verdict = statistics.verdict(found, p_holm, self.alpha)
        reason = _reservation(arm, base, found, verdict)
        at = statistics.mean([self.unit.show(base.values[i]) for i in shared_seeds(arm, base)])
        num = len(self.others)
        return judged(found, p_holm, reason, self.unit, at, self.replication, num)

    def _difference(self, arm: ArmSummary, base: ArmSummary) -> Difference | None:
        """Over the seeds that both completed."""
        groups = self.replication.groups(shared_seeds(arm, base))
        ours, theirs = (
            [statistics.mean([each.values[index] for index in group]) for group in groups]
            for each in (arm, base)
        )
        tested = not self.replication.of_settings_found
        return statistics.paired_difference(ours, theirs, alpha=self.alpha, tested=tested)

    def _best(self) -> str | None:
        """The arm that the test finds lower than each of the others, if there is one.

        The candidate is picked by its mean, so its comparisons with all others are corrected as a
        family. An arm without a result could still be lower: then there is no best.
        """
        known = [arm for arm in self.arms if arm.values]
        if len(known) < 2 or any(_unknown(arm) for arm in self.arms):
            return None
        first = min(known, key=lambda arm: statistics.mean([*arm.values.values()]))
        if first.counts.selected:
            return None
        found = [self._difference(first, arm) for arm in known if arm is not first]
        corrected = statistics.holm([d and d.p for d in found])
        pairs = zip(found, corrected, strict=True)
        lowest = all(statistics.verdict(d, p, self.alpha) == LOWER for d, p in pairs)
        return first.name if lowest else None


def judged(
    found: Difference,
    p_holm: float | None,
    reason: str,
    unit: Unit,
    at: float,
    replication: Replication,
    num_comparisons: int,
) -> Comparison:
    """The verdict on a difference, or `reason` why there is none; shown from the value `at`."""
    withheld = replication.of_settings_found
    reason = replication.searches if withheld else reason
    verdict = UNDECIDED if reason else statistics.verdict(found, p_holm, found.alpha)
    more = None
    if verdict == UNDECIDED and not reason:
        more = statistics.more_pairs(found.deltas, alpha=found.alpha, comparisons=num_comparisons)
    interval = None
    if found.interval is not None:
        interval = unit.shift(found.interval[0], at), unit.shift(found.interval[1], at)
    return Comparison(
        difference=found,
        delta=unit.shift(found.mean, at),
        interval=interval,
        p_holm=p_holm,
        verdict=NO_VERDICT if withheld else verdict,
        reason=reason,
        more=more,
    )


def shared_seeds(arm: ArmSummary, base: ArmSummary) -> list[int]:
    return [index for index in arm.values if index in base.values]


def _reservation(arm: ArmSummary, base: ArmSummary, found: Difference, verdict: str) -> str:
    """Why the test cannot decide, or not in this arm's favour; empty if it can."""
    missing = arm.counts.missing + base.counts.missing
    if missing:
        return f"{missing} to run"
    if set(arm.trials) == set(base.trials):
        return "same trials"
    if arm.counts.selected and verdict != HIGHER:
        return "lost seeds"
    if base.counts.selected and verdict != LOWER:
        return "base lost seeds"
    return "1 pair" if found.num_pairs == 1 else ""


def _unknown(arm: ArmSummary) -> bool:
    return arm.counts.missing > 0 or arm.counts.failed == arm.counts.planned
