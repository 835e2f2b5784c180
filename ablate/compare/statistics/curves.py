"""How good the best result of a search was, against what the search cost.

expected   the best of k trials, averaged over all choices of k of a search's n trials: the
           U-statistic, without bias for random search; of a sampler that learns, an average over
           the orders of its trials. With the trials sorted from the best, numbered from 0,
           P(none of the first i is chosen) = C(n - i, k) / C(n, k).
           Dodge et al. 2019 ("Show your work", Section 3.1) draw the k with replacement, which is
           biased: of uniform losses, their best of 8 of 8 trials is 50% too high. The spread is
           over the same choices; it is 0 at k = n, where there is only one.
as found   the best so far, in the order in which the trials were suggested.

A trial that diverged, was stopped early or raised an error has spent its budget, and counts as the
worst that completed; one that failed otherwise (a lost machine) is not counted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ablate.compare.judged import Judged
from ablate.compare.statistics import paired as statistics
from ablate.results.result import LOST, result_of
from ablate.store.journal import Journal
from ablate.store.outcome import Status

SPENT = (Status.COMPLETED, *LOST)


@dataclass(frozen=True, kw_only=True)
class BudgetPoint:
    """What a budget buys: loss on validation after N trials and M tokens."""

    trials: int
    tokens: float
    loss: float
    spread: float = 0.0  # over draws of `trials` trials


@dataclass(frozen=True, kw_only=True)
class BudgetCurve:
    """One arm's searches, of settings if there are any. `as_found`: a line for each search."""

    arm: str
    num_trials: int
    num_spoilt: int  # diverged, stopped early, or raised an error
    best: float  # loss
    expected: tuple[BudgetPoint, ...]
    as_found: tuple[tuple[BudgetPoint, ...], ...]


def budget_curves(judged: Judged) -> list[BudgetCurve]:
    """A curve for each arm that was searched, if any of its trials completed."""
    curves = (_curve(arm.name, judged) for arm in judged.record.arms)
    return [curve for curve in curves if curve is not None]


def _curve(arm: str, judged: Judged) -> BudgetCurve | None:
    metric, known = judged.metric, judged.journals
    runs = [
        [j for t in search.trials if (j := known.get(t)) and result_of(j).fate(metric) in SPENT]
        for search in judged.record.searches_of(arm)
    ]
    every = [journal for run in runs for journal in run]
    completed = [
        v for journal in every if (v := result_of(journal).loss(metric, "valid")) is not None
    ]
    if not completed:
        return None
    worst = max(completed)
    # A spoilt trial has spent its budget, and counts as the worst that completed.
    values = [
        [worst if (v := result_of(j).loss(metric, "valid")) is None else v for j in run]
        for run in runs
    ]
    tokens = sum(map(_tokens, every)) / len(every)
    return BudgetCurve(
        arm=arm,
        num_trials=len(every),
        num_spoilt=len(every) - len(completed),
        best=min(completed),
        expected=tuple(
            BudgetPoint(trials=k, tokens=k * tokens, loss=mean, spread=spread)
            for k, (mean, spread) in enumerate(_over_searches([v for v in values if v]), 1)
        ),
        as_found=tuple(
            tuple(_best_so_far(*run)) for run in zip(runs, values, strict=True) if run[0]
        ),
    )


def _over_searches(values: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """The mean of the curves of an arm's searches; as long as the shortest of them."""
    averages = []
    for at_k in zip(*map(expected_best, values), strict=False):
        mean = statistics.mean(m for m, _ in at_k)
        # Variances within the searches and between them add up.
        square = statistics.mean(spread**2 + (m - mean) ** 2 for m, spread in at_k)
        averages.append((mean, math.sqrt(square)))
    return averages


def expected_best(values: Sequence[float]) -> list[tuple[float, float]]:
    """The mean and the spread of the best (lowest) of k of the values, for k from 1 to all."""
    order, num = np.sort(values), len(values)
    left = np.arange(num, -1, -1)  # trials from each rank on
    behind, moments = np.ones(num + 1), []
    for k in range(1, num + 1):
        # That all k are from this rank on: the k-th is one of those left of num - k + 1.
        behind = behind * np.maximum(left - k + 1, 0) / (num - k + 1)
        chances = -np.diff(behind)  # that the trial of each rank is the best of k
        mean = float(chances @ order)
        moments.append((mean, math.sqrt(chances @ (order - mean) ** 2)))
    return moments


def _best_so_far(run: Sequence[Journal], values: Sequence[float]) -> list[BudgetPoint]:
    best, tokens = itertools.accumulate(values, min), itertools.accumulate(map(_tokens, run))
    return [
        BudgetPoint(trials=number, tokens=total, loss=loss)
        for number, (loss, total) in enumerate(zip(best, tokens, strict=True), 1)
    ]


def _tokens(journal: Journal) -> int:
    return sum(int(epoch.tokens or 0) for epoch in journal.epochs)
