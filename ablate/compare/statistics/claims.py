"""What a paper claims beside what we find: the difference between an arm and the one it is compared
with, theirs and ours.

A level hangs on everything: epochs, widths, the text. A difference of two arms may hold where
levels do not compare, so it stands beside the paper's at any scale, but is never called reproduced:

    same direction          our mean difference has the paper's sign
    within one run of ours  the paper's difference is one run of each arm. So it is compared with
                            where one more pair of ours would land, and not with the interval of our
                            mean, in which 16 to 55% of perfect replications do not lie:
                            t(1 - alpha/2, n - 1) s sqrt(1 + 1/n) from our mean, and half a unit of
                            the last digit of either published number (`verdicts.reach`)

Both are on the scale of the tests: of perplexity, a difference is a ratio, so that a paper's
numbers and those of a smaller model can be laid side by side. Nothing is tested here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ablate.compare.judged import Judged
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.paired import Difference
from ablate.compare.statistics.verdicts import digits_of, half_digit, published_cells, reach
from ablate.compare.table.rows import ArmSummary
from ablate.compare.text.figures import changed
from ablate.config.metrics import SPLIT, Metric
from ablate.results.arm import Measured


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A published difference of two arms, and ours. Differences are of losses."""

    arm: str
    against: str
    metric: Metric
    split: str
    ours: Difference
    theirs: float
    reach: float | None  # from our mean, of one more run and the paper's rounding

    @property
    def same_direction(self) -> bool:
        """Return whether both differences have one sign."""
        return self.ours.mean * self.theirs > 0

    @property
    def within_one_run(self) -> bool | None:
        """Return whether one more run of ours might give the paper's difference; None if our runs
        do not say how they vary."""
        return None if self.reach is None else abs(self.theirs - self.ours.mean) <= self.reach

    @property
    def shown_ours(self) -> str:
        """Our difference as tables show it."""
        return changed(self.metric, self.metric.change(self.ours.mean), None, self.metric.digits)

    @property
    def shown_theirs(self) -> str:
        """The paper's difference as tables show ours."""
        return changed(self.metric, self.metric.change(self.theirs), None, self.metric.digits)


def claims(summary: Judged) -> list[Claim]:
    """Every difference that the paper's tables print and this study has, at any scale."""
    by_name = {arm.name: arm for arm in summary.arms}
    base = summary.record.base_arm
    pairs = ((arm, by_name.get(arm.against or base)) for arm in summary.arms if not arm.is_base)
    return [claim for arm, other in pairs if other for claim in _of_arm(summary, arm, other)]


def _of_arm(summary: Judged, arm: ArmSummary, other: ArmSummary) -> Iterator[Claim]:
    for own, theirs in zip(arm.every, other.every, strict=True):
        of_arm, of_other = (_published(summary, each.name, own.metric) for each in (arm, other))
        for split in own.metric.splits if own.metric.of == SPLIT else ():
            pairs = _pairs(summary, own, theirs, split)
            ours = _difference(summary, pairs)
            if ours is None or split not in of_arm or split not in of_other:
                continue
            published = of_arm[split], of_other[split]
            losses = [own.metric.loss_of_shown(number) for number in published]
            yield Claim(
                arm=arm.name,
                against=other.name,
                metric=own.metric,
                split=split,
                ours=ours,
                theirs=losses[0] - losses[1],
                reach=_reach(summary, pairs, own.metric, split, published),
            )


def _published(summary: Judged, arm: str, metric: Metric) -> Mapping[str, float]:
    """The paper's numbers for an arm, which its record has at every scale."""
    record = summary.record.arm(arm)
    if metric == summary.metric:
        return record.published
    return record.published_columns.get(metric.name, {})


def _pairs(summary: Judged, own: Measured, theirs: Measured, split: str) -> list[list[float]]:
    """Our differences on a split: of each pair (a seed or a search), those of its seeds."""
    groups = summary.replication.groups(_shared(own, theirs, split))
    return [[own.losses[split][at] - theirs.losses[split][at] for at in group] for group in groups]


def _difference(summary: Judged, pairs: Sequence[Sequence[float]]) -> Difference | None:
    deltas = [statistics.mean(pair) for pair in pairs]
    return statistics.paired_difference(deltas, alpha=summary.alpha, tested=False)


def _reach(
    summary: Judged,
    pairs: Sequence[Sequence[float]],
    metric: Metric,
    split: str,
    published: Sequence[float],
) -> float | None:
    """How far from our mean one more run may land, and the rounding of both published numbers."""
    if len(pairs) < 2:
        return None
    cells = published_cells(summary.record, split, metric)
    printed = ((number, [cell for cell in cells if cell.value == number]) for number in published)
    digits = [digits_of(number, metric, half_digit(of)) for number, of in printed]
    return reach(pairs, summary.alpha) + sum(digits)


def _shared(own: Measured, theirs: Measured, split: str) -> list[int]:
    """The seeds that both arms have a value of."""
    others = theirs.losses.get(split, {})
    return [index for index in own.losses.get(split, {}) if index in others]
