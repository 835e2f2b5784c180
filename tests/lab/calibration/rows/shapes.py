"""What the t interval covers where the noise of a difference is not normal. Printed, no limit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ablate.compare.statistics.paired import t_interval
from tests.lab.calibration.draws import half_width
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate

Shape = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def _groups(generator: np.random.Generator, size: tuple[int, int], share: float) -> np.ndarray:
    """A share of the seeds is 1 higher than the others, whose spread is a tenth of that."""
    return (generator.random(size) < share) - share + generator.normal(0, 0.1, size)


def _lognormal(generator: np.random.Generator, size: tuple[int, int], sigma: float) -> np.ndarray:
    return generator.lognormal(0, sigma, size) - np.exp(sigma**2 / 2)


def _twice(one: Shape, generator: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """Both arms have the shape."""
    return one(generator, size) - one(generator, size)


SHAPES: dict[str, Shape] = {
    "normal": lambda draw, size: draw.normal(0, 1, size),
    "far outliers (t with 3 degrees)": lambda draw, size: draw.standard_t(3, size),
    "both arms exponential": partial(_twice, lambda draw, size: draw.exponential(1, size)),
    "both arms in two groups, a sixth off": partial(_twice, partial(_groups, share=1 / 6)),
    "one arm lognormal(0.5)": partial(_lognormal, sigma=0.5),
    "one arm exponential": lambda draw, size: draw.exponential(1, size) - 1,
    "one arm lognormal(1)": partial(_lognormal, sigma=1.0),
    "one arm in two groups, half and half": partial(_groups, share=1 / 2),
    "one arm in two groups, a sixth off": partial(_groups, share=1 / 6),
}


def covers(generator: np.random.Generator, num: int, *, shape: Shape, pairs: int) -> Simulated:
    """How often the interval has the true mean, 0."""
    deltas = shape(generator, (num, pairs))
    covered = np.abs(deltas.mean(-1)) <= half_width(deltas)
    intervals = [t_interval(each) for each in deltas[:CHECKED].tolist()]
    hold_equal(covered, [i is not None and i[0] <= 0 <= i[1] for i in intervals], "intervals")
    return Simulated(rate(covered))


ROW = Row(
    name="Other shapes of noise",
    promise="None. The t interval is exact for normal differences; this is what it covers "
    "otherwise. A single comparison errs in the rest.",
    draws="The mean difference is 0. Where one arm has the shape, the other arm is steady; where "
    "both have it, the shapes cancel.",
    of="95% intervals that cover the difference",
    limit=Limit(),
    twin="",
    cases=tuple(
        Case(f"{name}, {pairs} pairs", partial(covers, shape=shape, pairs=pairs))
        for name, shape in SHAPES.items()
        for pairs in (3, 5, 12)
    ),
)
