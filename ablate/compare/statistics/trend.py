"""How a saving of compute goes on with compute: a line through each seed's, over log compute.

The saving is the logarithm of how many times an arm's compute the base needs to get where the arm
is (`equivalent.py`). A seed has one at every rung, so it has a slope, and a value of its line at
any compute. Both are sums with weights that compute alone decides: those of least squares, all
rungs alike. Seeds are independent, whatever their rungs have in common, so the paired t over the
seeds' slopes is exact for normal noise, as is the t interval of the line carried to some compute.
All seeds and rungs in one regression would take a seed's rungs for independent draws
(docs/calibration.md has what comes of that). What is carried beyond the largest rung assumes that
the line goes on: that the base needs a constant factor, or one that is a power of the compute.

Differences of losses have no such line. Loss curves flatten, so those of an arm that always saves
the same share of the compute come nearer to 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from ablate.results.verdict import Verdict


class Trend(StrEnum):
    """What the test of the slope says of a saving."""

    GROWS = "grows"
    SHRINKS = "shrinks"
    NONE = ""  # neither is shown


class Hold(StrEnum):
    """What is shown of a saving on the largest rung and beyond."""

    HOLDS = "holds"
    NOT_SHOWN = "not shown to hold"
    WORSE = "worse"  # on the largest rung


def slopes(compute: Sequence[float], of_seeds: np.ndarray) -> list[float]:
    """Each seed's change for ten times the compute, from [seed, rung]."""
    return (of_seeds @ _slope_weights(np.log10(compute))).tolist()


def carried(compute: Sequence[float], of_seeds: np.ndarray, to: float) -> list[float]:
    """Each seed's line at some compute."""
    return (of_seeds @ weights_at(compute, [to])[0]).tolist()


def weights_at(compute: Sequence[float], to: Sequence[float] | np.ndarray) -> np.ndarray:
    """[to, rung]: the weights that give the line at each compute."""
    logs = np.log10(compute)
    away = np.log10(to) - logs.mean()
    return 1 / len(logs) + away[:, None] * _slope_weights(logs)


def _slope_weights(logs: np.ndarray) -> np.ndarray:
    centred = logs - logs.mean()
    return centred / (centred @ centred)


def trend_of(slope: Verdict) -> Trend:
    """The word for a slope; `BETTER` is that of a growing saving."""
    return {Verdict.BETTER: Trend.GROWS, Verdict.WORSE: Trend.SHRINKS}.get(slope, Trend.NONE)


def hold_of(largest: Verdict, beyond: Verdict) -> Hold:
    """A saving holds if it is shown on the largest rung, and still beyond. What was not trained
    shows no arm to be worse."""
    if largest == Verdict.WORSE:
        return Hold.WORSE
    both = largest == beyond == Verdict.BETTER
    return Hold.HOLDS if both else Hold.NOT_SHOWN


def in_words(trend: Trend, hold: Hold) -> str:
    """`grows, holds`, or `not shown to hold`."""
    return ", ".join(filter(None, [trend, hold]))
