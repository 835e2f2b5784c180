"""On how many seeds is an arm better? A share with its exact interval (Clopper and Pearson 1934).

It says what a mean and its interval do not: whether an arm is better on nearly every seed by a
little, or on a few of them by much. Nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special


@dataclass(frozen=True)
class Share:
    """The pairs of which the first arm has the lower loss; equal losses are not lower."""

    num_better: int
    num_pairs: int
    interval: tuple[float, float]

    def __str__(self) -> str:
        low, high = (f"{100 * end:.0f}" for end in self.interval)
        return f"{self.num_better}/{self.num_pairs} [{low}, {high}%]"


def share_better(deltas: Sequence[float], alpha: float = 0.05) -> Share:
    """The share of differences of losses that are below 0."""
    better = sum(delta < 0 for delta in deltas)
    return Share(better, len(deltas), exact_interval(better, len(deltas), alpha))


def exact_interval(num: int, of: int, alpha: float = 0.05) -> tuple[float, float]:
    """The interval of a probability by which `num` of `of` draws came out; it covers at least
    1 - alpha, whatever the probability is."""
    low = 0.0 if num == 0 else float(special.betaincinv(num, of - num + 1, alpha / 2))
    high = 1.0 if num == of else float(special.betaincinv(num + 1, of - num, 1 - alpha / 2))
    return low, high
