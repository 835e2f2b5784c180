"""Positions of labels that do not overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """The positions, in order, moved apart as little as needed to be `gap` apart.

    Within 0 and 1, if they fit there.
    """
    from scipy.optimize import isotonic_regression

    shifts = gap * np.arange(len(positions))
    apart = isotonic_regression(np.subtract(positions, shifts)).x
    return (np.clip(apart, 0, max(0, 1 - shifts[-1])) + shifts).tolist()
