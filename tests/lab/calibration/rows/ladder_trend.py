"""Trends over the rungs of a ladder: a t over the slopes of seeds."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import special

from ablate.compare.statistics import trend
from ablate.compare.statistics.paired import paired_difference
from tests.lab.calibration.draws import ALPHA, half_width
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate

NOISE = 0.5  # of a rung, in standard deviations of the slopes of seeds
GAIN, SLOPE = -1.0, -0.5  # of the true line: at the smallest rung, and for ten times the compute


def line(
    generator: np.random.Generator, num: int, *, seeds: int, rungs: int, times: float
) -> Simulated:
    """Gains on a line, from which each seed goes away by a slope of its own.

    `times`: where the line is read, in the compute of the largest rung; 0: its slope.
    """
    compute = 3.0 ** np.arange(rungs)
    logs = np.log10(compute)
    noise = _noise(generator, num, seeds, logs)
    deltas = GAIN + SLOPE * logs + noise
    to = times * compute[-1]
    if times:
        weights, truth = trend.weights_at(compute, [to])[0], GAIN + SLOPE * np.log10(to)
    else:
        weights, truth = _slope(logs), SLOPE
    of_seeds = deltas @ weights
    missed = np.abs(of_seeds.mean(-1) - truth) > half_width(of_seeds)
    by_tables = [
        _misses(trend.carried(compute, one, to) if times else trend.slopes(compute, one), truth)
        for one in deltas[:CHECKED]
    ]
    hold_equal(missed, by_tables, f"{seeds} seeds, {rungs} rungs")
    return Simulated(rate(missed), rate(_pooled(deltas, logs, weights, truth)))


def _noise(generator: np.random.Generator, num: int, seeds: int, logs: np.ndarray) -> np.ndarray:
    own = generator.normal(0, 1, (num, seeds, 1)) * logs
    return own + generator.normal(0, NOISE, (num, seeds, len(logs)))


def _slope(logs: np.ndarray) -> np.ndarray:
    """Least squares by a solver, which knows no formula of ours."""
    return np.linalg.lstsq(np.stack([np.ones_like(logs), logs], -1), np.eye(len(logs)))[0][1]


def _misses(of_seeds: list[float], truth: float) -> bool:
    difference = paired_difference(of_seeds, alpha=ALPHA)
    low, high = difference.interval if difference and difference.interval else (truth, truth)
    return not low <= truth <= high


def _pooled(deltas: np.ndarray, logs: np.ndarray, weights: np.ndarray, truth: float) -> np.ndarray:
    """One regression over all seeds and rungs, as if no two shared anything."""
    _, seeds, rungs = deltas.shape
    slope, means = deltas.mean(1) @ _slope(logs), deltas.mean((1, 2))
    fitted = means[:, None] + slope[:, None] * (logs - logs.mean())
    free = seeds * rungs - 2
    variance = ((deltas - fitted[:, None]) ** 2).sum((1, 2)) / free
    half = special.stdtrit(free, 1 - ALPHA / 2) * np.sqrt(variance * (weights @ weights) / seeds)
    return np.abs(deltas.mean(1) @ weights - truth) > half


ROW = Row(
    name="Trends over a ladder",
    promise="The interval of a line's slope over log compute, and of a line carried beyond the "
    "largest rung, misses the truth in 5% where what is measured is on a line. `Words of a ladder` "
    "has savings of compute, and curves that flatten.",
    draws="Gains on a line over log compute, each rung with three times the compute of the one "
    f"before. Each seed has a slope of its own; a rung's noise is {NOISE:g} of how much these "
    "slopes vary.",
    of="intervals that miss",
    limit=Limit(most=5.5),
    twin="one regression over all seeds and rungs",
    cases=tuple(
        Case(what, partial(line, seeds=seeds, rungs=rungs, times=times))
        for what, seeds, rungs, times in (
            ("carried to 10 times, 3 seeds on 4 rungs", 3, 4, 10.0),
            ("carried to 10 times, 5 seeds on 4 rungs", 5, 4, 10.0),
            ("slope, 5 seeds on 8 rungs", 5, 8, 0.0),
            ("carried to 10 times, 12 seeds on 6 rungs", 12, 6, 10.0),
        )
    ),
)
