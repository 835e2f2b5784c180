"""The mean and the standard deviation of a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean as mean

__all__ = ["ROUNDING", "mean", "spread"]

ROUNDING = 1e-12  # of the values: smaller differences are floating-point noise


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample (ddof = 1); None for a single value."""
    if len(values) < 2:
        return None
    centre = mean(values)
    deviation = math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))
    return 0.0 if deviation < ROUNDING * max(map(abs, values)) else deviation
