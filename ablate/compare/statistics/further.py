"""Differences in a study's further metrics: each has an interval, and none has a verdict.

Only the metric that was chosen beforehand is tested: with a few more, one would be decided by luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ablate.compare.statistics.against import Judge
from ablate.compare.statistics.paired import paired_difference
from ablate.compare.statistics.possible import possible_changes, within
from ablate.compare.table.rows import ArmSummary, Shift
from ablate.config.metrics import ARMS, SPLIT, Metric
from ablate.results.arm import Measured


def with_further(
    arms: Sequence[ArmSummary], base_arm: str, split: str, judge: Judge
) -> list[ArmSummary]:
    """The arms with their differences in each of `others`, from the arm they are compared with."""
    by_name = {arm.name: arm for arm in arms}
    others = {arm.name: by_name.get(arm.against or base_arm) for arm in arms}
    return [
        replace(arm, further=tuple(_shifts(arm, others[arm.name], split, judge))) for arm in arms
    ]


def _shifts(
    arm: ArmSummary, other: ArmSummary | None, split: str, judge: Judge
) -> Sequence[Shift | None]:
    if other is None or arm.is_base:
        return [None] * len(arm.others)
    pairs = zip(arm.others, other.others, strict=True)
    return [_shift(one, reference, split, judge) for one, reference in pairs]


def _shift(one: Measured, reference: Measured, split: str, judge: Judge) -> Shift | None:
    """The mean difference over the pairs; a metric that is a difference of arms has none."""
    metric: Metric = one.metric
    of = split if metric.of == SPLIT else metric.of
    ours, theirs = one.losses.get(of, {}), reference.losses.get(of, {})
    seeds = [seed for seed in ours if seed in theirs]
    if metric.of == ARMS or not seeds:
        return None
    ours, theirs = (judge.replication.means(losses, seeds) for losses in (ours, theirs))
    deltas = [a - b for a, b in zip(ours, theirs, strict=True)]
    size = max(map(abs, [*ours, *theirs]))
    difference = paired_difference(deltas, size=size, alpha=judge.alpha, tested=False)
    if difference is None:
        return None
    interval = None
    if difference.interval is not None:
        low, high = sorted(map(metric.change, difference.interval))
        interval = within((low, high), possible_changes(theirs, metric))
    return Shift(delta=metric.change(difference.mean), interval=interval)
