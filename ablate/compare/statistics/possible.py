"""What a difference can be: a BLEU below 0 is none, whatever a t interval of few pairs says."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ablate.config.metrics import Metric
from ablate.results.spread import mean


def within(interval: tuple[float, float], possible: tuple[float, float]) -> tuple[float, float]:
    """The part of an interval that is possible."""
    low, high = (min(max(end, possible[0]), possible[1]) for end in interval)
    return low, high


def possible_changes(losses: Sequence[float], metric: Metric) -> tuple[float, float]:
    """From the mean of the compared arm's losses to either end of what the metric can be.

    On a scale of logarithms or log odds, no interval leaves what is possible.
    """
    if metric.in_percent:
        return -math.inf, math.inf
    at, (low, high) = mean(map(metric.show, losses)), metric.range
    return low - at, high - at
