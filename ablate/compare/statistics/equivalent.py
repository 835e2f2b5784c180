"""How much more compute the base needs to get where an arm is: the compute-equivalent gain.

The base's curve (`power_law.py`) reaches the arm's loss at some compute. The gain is this over what
the arm used itself, so that an arm that costs more for each token is not favoured.

The interval has every compute at which the arm's loss and the base's curve are not shown to differ:
where the t interval of their difference over seeds holds 0. A seed's difference has the arm's loss
on that seed, and the curve as the seed's own losses of the base would move it. So the interval
needs no spread of the curve's three numbers, and is open where seeds do not tell how far away an
end is. docs/calibration.md has the rate at which it misses the truth. Ends beyond `FAR` times the
ladder's own are left open, too.

How the gain goes on with compute, its logarithm says: at each rung it moves with a seed's losses,
so a seed has a line over log compute (`trend.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ablate.compare.statistics.paired import t_interval, t_quantile
from ablate.compare.statistics.power_law import PowerLaw
from ablate.store.replication import MIN_PAIRS

FAR = 100.0  # times the compute of the largest rung, or a share of the smallest's
STEPS = 120  # between these ends
FINER = 30  # steps of each of the rounds that refine an end
ROUNDS = 3


@dataclass(frozen=True)
class Equivalent:
    """The base's compute for an arm's loss, over the arm's own, on one rung or beyond; or by what
    this is multiplied for ten times the compute. None: beyond what is quoted."""

    ratio: float | None
    low: float | None
    high: float | None
    beyond: bool  # the base would need more than it has at the largest rung


def equivalent(
    curve: PowerLaw,
    base: np.ndarray,
    arm: Sequence[float] | np.ndarray,
    compute: float,
    alpha: float = 0.05,
) -> Equivalent:
    """The gain of an arm that reached the losses `arm` with this compute at one rung. `base` has
    the base's losses [seed, rung] on the same seeds."""
    own, largest = np.asarray(arm, float), max(curve.rungs)
    needed = curve.compute_for(float(own.mean()))
    ends = _ends(curve, base, own, needed, alpha) if len(own) >= MIN_PAIRS else (None, None)
    low, high = (None if end is None else end / compute for end in ends)
    ratio = needed / compute if needed and _quoted(curve, needed) else None
    return Equivalent(ratio, low, high, needed is None or needed > largest)


def savings(
    curve: PowerLaw, base: np.ndarray, arms: np.ndarray, compute: Sequence[float]
) -> np.ndarray | None:
    """The gain's log10 [seed, rung]. `arms` has losses [seed, rung], and `compute` what the arm
    used. None if the gain at some rung is not quoted."""
    needed = [curve.compute_for(loss) for loss in arms.mean(0).tolist()]
    known = np.array([one for one in needed if one and _quoted(curve, one)])
    if len(known) < len(needed):
        return None
    moved = arms - arms.mean(0) - (base - base.mean(0)) @ curve.weights(known).T
    return np.log10(known / np.array(compute)) + moved / curve.fall(known)


def from_logs(of_seeds: Sequence[float], alpha: float, *, beyond: bool) -> Equivalent:
    """A mean of logarithms, with its t interval, as a ratio. `beyond`: it is extrapolated."""
    mean = float(np.mean(of_seeds))
    low, high = t_interval(of_seeds, alpha) or (-math.inf, math.inf)
    ratio, low, high = (
        10**end if abs(end) < math.log10(FAR) else None for end in (mean, low, high)
    )
    return Equivalent(ratio, low, high, mean > 0 if ratio is None else beyond)


def _quoted(curve: PowerLaw, needed: float) -> bool:
    return min(curve.rungs) / FAR <= needed <= max(curve.rungs) * FAR


def _ends(
    curve: PowerLaw, base: np.ndarray, own: np.ndarray, needed: float | None, alpha: float
) -> tuple[float | None, float | None]:
    """From where both are equal, in both directions, as far as they are not shown to differ."""
    reach = t_quantile(1 - alpha / 2, len(own) - 1) / math.sqrt(len(own))

    def apart(logs: np.ndarray) -> np.ndarray:
        """How far the arm is above the curve, in half widths of the difference's interval."""
        compute = np.exp(logs)
        seeds = own[:, None] - base @ curve.weights(compute).T
        with np.errstate(divide="ignore", invalid="ignore"):
            return (own.mean() - curve.at(compute)) / (reach * seeds.std(0, ddof=1))

    first, last = math.log(min(curve.rungs) / FAR), math.log(max(curve.rungs) * FAR)
    equal = last if needed is None else min(max(math.log(needed), first), last)
    low = _first(lambda logs: -apart(logs), equal, first)
    high = _first(apart, equal, last)
    return low and math.exp(low), high and math.exp(high)


def _first(apart: Callable[[np.ndarray], np.ndarray], start: float, end: float) -> float | None:
    """The first place from start to end at which `apart` is above 1; None if there is none."""
    steps = STEPS
    for _ in range(ROUNDS):
        places = np.linspace(start, end, steps + 1)
        above = np.flatnonzero(apart(places) > 1)
        if not len(above):
            return None
        start, end = float(places[max(0, above[0] - 1)]), float(places[above[0]])
        steps = FINER
    return (start + end) / 2
