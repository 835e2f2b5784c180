"""How a gain changes with compute: a line through each seed's differences, over log10 of compute.

A seed has a difference at every rung, so it has a slope, and a value of its line at any compute.
Both are sums of its differences with weights that compute alone decides: those of least squares,
all rungs alike. Seeds are independent, whatever their rungs have in common, so the paired t over
the seeds' slopes is exact for normal noise, as is the t interval of the line carried to some
compute. All seeds and rungs in one regression would take a seed's rungs for independent draws
(docs/calibration.md has what comes of that). What is carried beyond the largest rung assumes that
the line goes on. Loss curves flatten, so an arm that always saves the same share of the compute has
differences that come nearer to 0, and a line through them crosses it: the line alone calls no arm
worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from ablate.results.verdict import Verdict


class Trend(StrEnum):
    """What the test of the slope says of a gain, as a difference of losses."""

    GROWS = "grows"
    SHRINKS = "shrinks"
    NONE = ""  # neither is shown


class Hold(StrEnum):
    """What is shown of a gain on the largest rung and beyond."""

    HOLDS = "holds"
    NOT_SHOWN = "not shown to hold"
    WORSE = "worse"  # on the largest rung


def slopes(compute: Sequence[float], deltas: np.ndarray) -> list[float]:
    """Each seed's change of the difference for ten times the compute, from [seed, rung]."""
    return (deltas @ _slope_weights(np.log10(compute))).tolist()


def carried(compute: Sequence[float], deltas: np.ndarray, to: float) -> list[float]:
    """Each seed's line at some compute."""
    return (deltas @ weights_at(compute, [to])[0]).tolist()


def weights_at(compute: Sequence[float], to: Sequence[float] | np.ndarray) -> np.ndarray:
    """[to, rung]: the weights that give the line at each compute."""
    logs = np.log10(compute)
    away = np.log10(to) - logs.mean()
    return 1 / len(logs) + away[:, None] * _slope_weights(logs)


def _slope_weights(logs: np.ndarray) -> np.ndarray:
    centred = logs - logs.mean()
    return centred / (centred @ centred)


def trend_of(slope: Verdict) -> Trend:
    """A falling difference of losses is a growing gain."""
    return {Verdict.BETTER: Trend.GROWS, Verdict.WORSE: Trend.SHRINKS}.get(slope, Trend.NONE)


def hold_of(largest: Verdict, beyond: Verdict) -> Hold:
    """A gain holds if it is shown on the largest rung, and still beyond. What was not trained shows
    no arm to be worse."""
    if largest == Verdict.WORSE:
        return Hold.WORSE
    both = largest == beyond == Verdict.BETTER
    return Hold.HOLDS if both else Hold.NOT_SHOWN


def in_words(trend: Trend, hold: Hold) -> str:
    """`grows, holds`, or `not shown to hold`."""
    return ", ".join(filter(None, [trend, hold]))
