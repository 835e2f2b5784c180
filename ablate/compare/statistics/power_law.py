"""The curve of losses against compute, L(C) = E + A C^-a, fitted by variable projection.

For a given exponent a the curve is linear in E and A, whose best values follow in closed form: with
A >= 0, and with E >= 0 where no loss can be lower (Golub and Pereyra 1973). What is left is a
search over a alone. Losses of language models fall towards a floor by powers of parameters and of
tokens (Hoffmann et al. 2022). Between the rungs of a ladder the curve interpolates, and beyond them
it is an assumption.

The means of four rungs are one number more than the curve has, so how far they are from the curve
says next to nothing of how well the curve is known. Seeds say it: each has a loss at every rung,
and `weights` says by how much the curve moves with the loss at each rung.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import optimize

EXPONENTS = (0.005, 3.0)  # searched, from nearly a straight line over log compute
STEPS = 60  # of the search, before it is refined
LARGEST = 60.0  # logarithm of compute, over that of the rungs: far beyond what is ever quoted


@dataclass(frozen=True)
class PowerLaw:
    """A fitted curve."""

    floor: float  # E
    height: float  # A, with compute counted in `unit`
    exponent: float  # a
    unit: float  # the geometric mean of the rungs' compute
    rungs: tuple[float, ...]  # compute
    above_zero: bool  # E may not be below 0

    def at(self, compute: np.ndarray | float) -> np.ndarray:
        """The loss at some compute."""
        return self.floor + self.height * (np.asarray(compute) / self.unit) ** -self.exponent

    def fall(self, compute: np.ndarray) -> np.ndarray:
        """The change of the loss for ten times the compute, at the curve's slope there."""
        return -math.log(10) * self.exponent * (self.at(compute) - self.floor)

    def compute_for(self, loss: float) -> float | None:
        """The compute that reaches a loss; None if none does."""
        if loss <= self.floor or self.height <= 0:
            return None
        log = math.log(self.height / (loss - self.floor)) / self.exponent
        return self.unit * math.exp(log) if abs(log) < LARGEST else None

    def weights(self, compute: np.ndarray) -> np.ndarray:
        """[compute, rung]: by how much the curve moves with the loss at each rung."""
        return self._tangent(compute) @ self._projection

    @property
    def problem(self) -> str:
        """Why the curve's numbers are not known; empty if they are."""
        if self.height <= 0:
            return "its loss does not fall with compute"
        if self.exponent > 0.99 * EXPONENTS[1]:
            return "its loss stops falling all at once"
        return ""

    @cached_property
    def _projection(self) -> np.ndarray:
        return np.linalg.pinv(self._tangent(np.asarray(self.rungs)))

    def _tangent(self, compute: np.ndarray) -> np.ndarray:
        """The derivatives of the curve by its numbers, except those at an end of their range."""
        relative = np.log(compute / self.unit)
        fallen = np.exp(-self.exponent * relative)
        columns = [fallen]
        if not (self.above_zero and self.floor == 0):
            columns.append(np.ones_like(fallen))
        if EXPONENTS[0] * 1.01 < self.exponent < EXPONENTS[1] * 0.99:
            columns.append(-self.height * fallen * relative)
        return np.stack(columns, -1)


def fit(compute: Sequence[float], losses: Sequence[float], *, above_zero: bool) -> PowerLaw:
    """The curve nearest to the losses, by least squares. `above_zero`: no loss is below 0."""
    logs, values = np.log(np.asarray(compute, float)), np.asarray(losses, float)
    solve = partial(_linear, logs - logs.mean(), values, above_zero=above_zero)
    grid = np.geomspace(*EXPONENTS, STEPS)
    best = int(np.argmin([solve(exponent)[0] for exponent in grid]))
    ends = np.log(grid[[max(0, best - 1), min(STEPS - 1, best + 1)]])
    found: Any = optimize.minimize_scalar(
        lambda log: solve(math.exp(log))[0], bounds=ends, method="bounded", options={"xatol": 1e-9}
    )
    exponent = math.exp(found.x)
    _, floor, height = solve(exponent)
    unit = math.exp(logs.mean())
    return PowerLaw(floor, height, exponent, unit, tuple(map(float, compute)), above_zero)


def _linear(
    relative: np.ndarray, losses: np.ndarray, exponent: float, *, above_zero: bool
) -> tuple[float, float, float]:
    """The sum of squares that is left with the best E and A for an exponent; these two."""
    fallen = np.exp(-exponent * relative)
    centred = fallen - fallen.mean()
    height = float(centred @ losses / (centred @ centred))
    floor = float(losses.mean() - height * fallen.mean())
    if height < 0:
        height, floor = 0.0, float(losses.mean())
    elif above_zero and floor < 0:
        height, floor = float(fallen @ losses / (fallen @ fallen)), 0.0
    left = losses - floor - height * fallen
    return float(left @ left), floor, height
