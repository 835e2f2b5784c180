"""What a paper claims beside what we find: the difference between an arm and the one it is compared
with, theirs and ours.

A level hangs on everything: epochs, widths, the text. A difference of two arms may hold where
levels do not compare, so it stands beside the paper's at any scale, but is never called reproduced:

    same direction    our mean difference has the paper's sign
    in our interval   the paper's difference lies in our interval

Both are on the scale of the tests: of perplexity, a difference is a ratio, so that a paper's
numbers and those of a smaller model can be laid side by side. Beside it stand the differences of
the means as printed. Nothing is tested here; `verdict` is the table's, on the split that decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.paired import Difference
from ablate.compare.table.rows import ArmSummary, Summary
from ablate.compare.text.figures import changed, signed
from ablate.config.metrics import SPLIT, Metric
from ablate.results.arm import Measured
from ablate.results.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A published difference of two arms, and ours. Differences are of losses."""

    arm: str
    against: str
    metric: Metric
    split: str
    ours: Difference
    theirs: float
    means: tuple[float, float]  # of the arm and of the other, over the seeds that both have
    published: tuple[float, float]  # of the arm and of the other, as printed
    verdict: Verdict | None  # on ours; None on a split that does not decide
    of_settings_found: bool = False  # the interval is of these, not of the arms

    @property
    def same_direction(self) -> bool:
        """Return whether both differences have one sign."""
        return self.ours.mean * self.theirs > 0

    @property
    def in_interval(self) -> bool | None:
        """Return whether the paper's difference lies in our interval; None without an interval."""
        if self.ours.interval is None:
            return None
        low, high = self.ours.interval
        return low <= self.theirs <= high

    @property
    def shown_ours(self) -> str:
        """Our difference as tables show it, with its interval."""
        ends = None
        if self.ours.interval is not None:
            low, high = sorted(map(self.metric.change, self.ours.interval))
            ends = low, high
        return changed(self.metric, self.metric.change(self.ours.mean), ends, self.metric.digits)

    @property
    def shown_theirs(self) -> str:
        """The paper's difference as tables show ours."""
        return changed(self.metric, self.metric.change(self.theirs), None, self.metric.digits)

    @property
    def apart(self) -> tuple[str, str]:
        """How far the means are apart in what people read: ours, and the paper's."""
        ours, theirs = (pair[0] - pair[1] for pair in (self.means, self.published))
        return signed(ours, self.metric.digits), signed(theirs, self.metric.digits)

    @property
    def direction(self) -> str:
        """`same`, with a word where the table does not decide ours."""
        undecided = ", undecided" if self.verdict == Verdict.UNDECIDED else ""
        if self.theirs == 0:
            return f"paper: none{undecided}"
        return f"{'same' if self.same_direction else 'other'}{undecided}"


def claims(summary: Summary) -> list[Claim]:
    """Every difference that the paper's tables print and this study has, at any scale."""
    by_name = {arm.name: arm for arm in summary.arms}
    base = summary.record.base_arm
    pairs = ((arm, by_name.get(arm.against or base)) for arm in summary.arms if not arm.is_base)
    return [claim for arm, other in pairs if other for claim in _of_arm(summary, arm, other)]


def _of_arm(summary: Summary, arm: ArmSummary, other: ArmSummary) -> Iterator[Claim]:
    for own, theirs in zip(arm.every, other.every, strict=True):
        of_arm, of_other = (_published(summary, each.name, own.metric) for each in (arm, other))
        for split in own.metric.splits if own.metric.of == SPLIT else ():
            ours = _difference(summary, own, theirs, split)
            if ours is None or split not in of_arm or split not in of_other:
                continue
            decides = own is arm.measured and split == summary.split
            published = of_arm[split], of_other[split]
            losses = [own.metric.loss_of_shown(number) for number in published]
            yield Claim(
                arm=arm.name,
                against=other.name,
                metric=own.metric,
                split=split,
                ours=ours,
                theirs=losses[0] - losses[1],
                means=(_mean(own, theirs, split), _mean(theirs, own, split)),
                published=published,
                verdict=arm.comparison.verdict if decides and arm.comparison else None,
                of_settings_found=summary.replication.of_settings_found,
            )


def _mean(own: Measured, other: Measured, split: str) -> float:
    """The mean of what people read, over the seeds that both arms have."""
    shared = _shared(own, other, split)
    return statistics.mean([own.metric.show(own.losses[split][index]) for index in shared])


def _published(summary: Summary, arm: str, metric: Metric) -> Mapping[str, float]:
    """The paper's numbers for an arm, which its record has at every scale."""
    record = summary.record.arm(arm)
    if metric == summary.metric:
        return record.published
    return record.published_columns.get(metric.name, {})


def _difference(summary: Summary, own: Measured, theirs: Measured, split: str) -> Difference | None:
    """Ours on a split, over the seeds (or searches) that both arms have."""
    seeds = _shared(own, theirs, split)
    losses = [each.losses.get(split, {}) for each in (own, theirs)]
    means = [summary.replication.means(each, seeds) for each in losses]
    deltas = [a - b for a, b in zip(*means, strict=True)]
    return statistics.paired_difference(deltas, alpha=summary.alpha, tested=False)


def _shared(own: Measured, theirs: Measured, split: str) -> list[int]:
    """The seeds that both arms have a value of."""
    others = theirs.losses.get(split, {})
    return [index for index in own.losses.get(split, {}) if index in others]
