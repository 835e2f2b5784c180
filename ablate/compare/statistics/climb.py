"""An arm on every rung of a ladder, beside the arm that it is compared with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ablate.compare.judged import ALPHA, Judged
from ablate.compare.statistics.against import shared_seeds
from ablate.compare.statistics.equivalent import Equivalent, equivalent, savings
from ablate.compare.statistics.paired import t_quantile
from ablate.compare.statistics.power_law import PowerLaw, fit
from ablate.compare.table.rows import ArmSummary
from ablate.config.metrics import Metric
from ablate.store.replication import MIN_PAIRS

ROUNDING = 1e-6  # of the fit, as a share of the losses' range


@dataclass(frozen=True, eq=False)
class Climb:
    """Losses [pair, rung] of an arm and of the compared one, and their operations by rung."""

    arm: str
    against: str
    losses: np.ndarray
    base: np.ndarray  # of the compared arm, on the same pairs
    compute: tuple[float, ...]  # empty if some are not known
    base_compute: tuple[float, ...]
    above_zero: bool  # no loss is below 0

    @property
    def deltas(self) -> np.ndarray:
        """The differences [pair, rung]: below 0 is better."""
        return self.losses - self.base

    @property
    def rises(self) -> bool:
        """Return whether the compared arm's compute is known, and larger on each rung."""
        compute = self.base_compute
        return bool(compute) and all(a < b for a, b in itertools.pairwise(compute))

    @cached_property
    def problem(self) -> str:
        """Why the compared arm has no curve; empty if it has one."""
        if not (self.base_compute and self.compute):
            return "the operations of some trials are not known"
        if not self.rises:
            return "its compute does not rise from rung to rung"
        if not (np.diff(self.base.mean(0)) < 0).all():
            return "its loss does not fall from rung to rung"
        if not self._fitted.problem and self._is_off_curve:
            return "its losses are not on a curve E + A C^-a"
        return self._fitted.problem

    @property
    def law(self) -> PowerLaw | None:
        """The compared arm's curve."""
        return None if self.problem else self._fitted

    @cached_property
    def _fitted(self) -> PowerLaw:
        means = self.base.mean(0).tolist()
        return fit(self.base_compute, means, above_zero=self.above_zero)

    @property
    def _is_off_curve(self) -> bool:
        """Return whether t-tests over pairs show what the curve leaves at some rung not to be 0.

        Then an arm that equals the compared one seems to need more or less compute. What is left
        varies in as many directions as there are more rungs than numbers of the curve: of none,
        nothing can be shown.
        """
        compute, means = np.asarray(self.base_compute), self.base.mean(0)
        projection = self._fitted.weights(compute)
        free = len(compute) - round(np.trace(projection))
        if free < 1 or len(self.base) < MIN_PAIRS:
            return False
        reach = half_widths(self.base - self.base @ projection.T, ALPHA / free)
        rounding = ROUNDING * np.ptp(means)
        return bool((np.abs(means - self._fitted.at(compute)) > reach + rounding).any())

    def needed(self, rung: int, alpha: float) -> Equivalent | None:
        """What the compared arm needs to get where the arm is on a rung."""
        if self.law is None:
            return None
        return equivalent(self.law, self.base, self.losses[:, rung], self.compute[rung], alpha)

    @cached_property
    def savings(self) -> np.ndarray | None:
        """Its logarithm [pair, rung]; None if it has no number on some rung."""
        if self.law is None:
            return None
        return savings(self.law, self.base, self.losses, self.compute)

    def band(self, compute: np.ndarray, alpha: float) -> np.ndarray:
        """Half the width of the interval of the compared arm's curve; 0 below three pairs."""
        if self.law is None:
            return np.zeros_like(compute)
        return half_widths(self.base @ self.law.weights(compute).T, alpha)


def half_widths(of_pairs: np.ndarray, alpha: float) -> np.ndarray:
    """Half the width of the t interval of each column's mean; 0 below three pairs."""
    num = len(of_pairs)
    if num < MIN_PAIRS:
        return np.zeros(of_pairs.shape[1])
    return t_quantile(1 - alpha / 2, num - 1) * of_pairs.std(0, ddof=1) / np.sqrt(num)


def climb_of(summaries: Sequence[Judged], name: str) -> Climb | None:
    """An arm on every rung; None if no pair has results of both arms on all of them."""
    arms = [summary.arm(name) for summary in summaries]
    against = name if arms[0].is_base else arms[0].against or summaries[0].record.base_arm
    others = [summary.arm(against) for summary in summaries]
    tables = [_by_pair(*three) for three in zip(summaries, arms, others, strict=True)]
    pairs = sorted(set.intersection(*map(set, tables)))
    if not pairs:
        return None
    both = np.array([[table[pair] for table in tables] for pair in pairs])
    return Climb(
        arm=name,
        against=against,
        losses=both[..., 0],
        base=both[..., 1],
        compute=_known([*map(compute_of, summaries, arms)]),
        base_compute=_known([*map(compute_of, summaries, others)]),
        above_zero=_above_zero(summaries[0].metric),
    )


def compute_of(summary: Judged, arm: ArmSummary) -> float | None:
    """The operations of a seed's training: what the ladder says, or else what trials recorded."""
    said = summary.record.arm(arm.name).compute
    return arm.operations if said is None else said


def _by_pair(summary: Judged, arm: ArmSummary, other: ArmSummary) -> dict[int, tuple[float, float]]:
    """Pair -> the losses of both arms."""
    replication, seeds = summary.replication, shared_seeds([arm, other])
    pairs = [replication.pair(group[0]) for group in replication.groups(seeds)]
    losses = (replication.means(each.values, seeds) for each in (arm, other))
    return dict(zip(pairs, zip(*losses, strict=True), strict=True))


def _known(compute: Sequence[float | None]) -> tuple[float, ...]:
    known = [one for one in compute if one]
    return tuple(known) if len(known) == len(compute) else ()


def _above_zero(metric: Metric) -> bool:
    linear = metric.scale == "linear" and metric.better == "lower" and metric.lowest == 0
    return metric.reports_scaled or linear
