"""The tests of tables in numpy, over the last axis, for many tables at once."""

from __future__ import annotations

import numpy as np
from scipy import special

ALPHA = 0.05


def t_of(deltas: np.ndarray) -> np.ndarray:
    """The t statistic of mean = 0."""
    num = deltas.shape[-1]
    return deltas.mean(-1) / (deltas.std(-1, ddof=1) / np.sqrt(num))


def p_of(deltas: np.ndarray) -> np.ndarray:
    """The two-sided p of the paired t-test."""
    return 2 * special.stdtr(deltas.shape[-1] - 1, -np.abs(t_of(deltas)))


def half_width(deltas: np.ndarray, alpha: float = ALPHA) -> np.ndarray:
    """Half of the t interval."""
    num = deltas.shape[-1]
    reach = special.stdtrit(num - 1, 1 - alpha / 2)
    return reach * deltas.std(-1, ddof=1) / np.sqrt(num)


def holm(p: np.ndarray, keeping: np.ndarray | bool = False) -> np.ndarray:
    """Holm's adjustment of the p-values of each table; some keep their share once decided."""
    order = np.argsort(p, -1)
    leaving = np.take_along_axis(~np.broadcast_to(keeping, p.shape), order, -1)
    shares = p.shape[-1] - np.cumsum(leaving, -1) + leaving
    adjusted = np.maximum.accumulate(np.take_along_axis(p, order, -1) * shares, -1)
    back = np.empty_like(adjusted)
    np.put_along_axis(back, order, np.minimum(1, adjusted), -1)
    return back


def against_base(losses: np.ndarray) -> np.ndarray:
    """Differences of all arms from the first: [table, arm, pair] without the base arm."""
    return losses[:, 1:] - losses[:, :1]


def arms_of(generator: np.random.Generator, num: int, arms: int, pairs: int) -> np.ndarray:
    """Losses [table, arm, pair] of equal arms, whose differences have a spread of 1.

    A pair's own draw is shared by its arms, and twice as wide as theirs.
    """
    shared = generator.normal(0, np.sqrt(2), (num, 1, pairs))
    return shared + generator.normal(0, np.sqrt(0.5), (num, arms, pairs))
