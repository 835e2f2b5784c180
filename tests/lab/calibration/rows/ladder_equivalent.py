"""The compute that the base needs to get where an arm is: intervals from the curve of one fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ablate.compare.statistics.equivalent import Equivalent, equivalent
from ablate.compare.statistics.paired import t_interval
from ablate.compare.statistics.power_law import PowerLaw, fit
from tests.lab.calibration.draws import ALPHA
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate

FLOOR, HEIGHT, EXPONENT = 1.7, 2.0, 0.2  # of the base's true curve, in nats
SAVED = 1.2  # what the base truly needs, over what the arm used
SHARED = 0.2  # share of the noise's variance that both arms of a seed have in common


def curves(
    generator: np.random.Generator,
    num: int,
    *,
    seeds: int,
    rungs: int,
    noise: float,
    floor: float = FLOOR,
) -> Simulated:
    """An arm that is as good as the base with more compute, on the largest rung of a ladder."""
    compute, missed, known = 3.0 ** np.arange(rungs), [], []
    arms = _losses(generator, num, seeds, compute, noise, floor)
    for base, arm in arms:
        if not (np.diff(base.mean(0)) < 0).all():  # tables give no number
            continue
        law = fit(compute.tolist(), base.mean(0).tolist(), above_zero=True)
        if law.problem:
            continue
        found = equivalent(law, base, arm[:, -1], compute[-1], ALPHA)
        missed.append(_misses(found))
        known.append(_misses_by_one_curve(law, arm[:, -1], compute[-1]))
        if len(missed) <= CHECKED:
            hold_equal(
                np.array([missed[-1]]), [_misses_by_test(law, base, arm[:, -1], compute)], "curves"
            )
    return Simulated(rate(np.array(missed)), rate(np.array(known)))


def _losses(
    generator: np.random.Generator,
    num: int,
    seeds: int,
    compute: np.ndarray,
    noise: float,
    floor: float,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    shape = (seeds, len(compute))
    for _ in range(num):
        common, *own = generator.normal(0, noise, (3, *shape))
        base, arm = (np.sqrt(SHARED) * common + np.sqrt(1 - SHARED) * one for one in own)
        yield (
            floor + HEIGHT * compute**-EXPONENT + base,
            floor + HEIGHT * (SAVED * compute) ** -EXPONENT + arm,
        )


def _misses(found: Equivalent) -> bool:
    """An open end misses nothing."""
    above = found.low is not None and found.low > SAVED
    return above or (found.high is not None and found.high < SAVED)


def _misses_by_test(law: PowerLaw, base: np.ndarray, arm: np.ndarray, compute: np.ndarray) -> bool:
    """The truth itself tested: whether 0 is in the t interval of the arm less the curve there, with
    derivatives of the fit taken by small steps of the losses."""
    at, step = SAVED * compute[-1], 1e-5
    means = base.mean(0)

    def curve(losses: np.ndarray) -> float:
        return float(fit(compute.tolist(), losses.tolist(), above_zero=True).at(at))

    moves = [(curve(means + e) - curve(means - e)) / (2 * step) for e in step * np.eye(len(means))]
    of_seeds = arm - curve(means) - (base - means) @ np.array(moves)
    low, high = t_interval(of_seeds.tolist(), ALPHA) or (-np.inf, np.inf)
    return not low <= 0 <= high


def _misses_by_one_curve(law: PowerLaw, arm: np.ndarray, compute: float) -> bool:
    """The base's curve taken as known: only the arm's losses vary."""
    ends = [law.compute_for(end) for end in t_interval(arm.tolist(), ALPHA) or ()]
    high, low = (np.inf if end is None else end / compute for end in ends)
    return not low <= SAVED <= high


ROW = Row(
    name="Compute-equivalent gains",
    promise="The interval of how much compute the base needs to get where an arm is, over what the "
    "arm used, misses the truth in 5%, also where the base's curve is extrapolated.",
    draws=f"Losses E + A C^-a of {FLOOR:g} + {HEIGHT:g} C^-{EXPONENT:g} nats, each rung with three "
    f"times the compute of the one before; the arm gets on the largest rung where the base needs "
    f"{SAVED:g} times as much. A fifth of the noise's variance is shared by a seed's arms. Draws "
    "in which the base's mean losses do not fall from rung to rung have no number, and do not "
    "count.",
    of="intervals that miss",
    limit=Limit(most=5.5),
    twin="the base's curve taken as known",
    cases=tuple(
        Case(what, partial(curves, seeds=seeds, rungs=rungs, noise=noise, **more))
        for what, seeds, rungs, noise, more in (
            ("3 seeds on 4 rungs, noise 0.01", 3, 4, 0.01, {}),
            ("5 seeds on 4 rungs, noise 0.01", 5, 4, 0.01, {}),
            ("5 seeds on 4 rungs, noise 0.05", 5, 4, 0.05, {}),
            ("5 seeds on 4 rungs, noise 0.01, E = 0", 5, 4, 0.01, {"floor": 0.0}),
            ("10 seeds on 6 rungs, noise 0.02", 10, 6, 0.02, {}),
        )
    ),
)
