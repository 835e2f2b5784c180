"""Distances between spans against the golden reference, their limits and random spaces."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.lm.analysis import NoOptions, subspace_distance
from ablate.lm.analysis.subspace_distance import basis, cosines, projection_residual


def distance(L, W) -> float:
    return projection_residual(basis(L), basis(W))


def test_the_golden_distance(vector):
    golden = vector("real_reference")
    assert distance(golden["L"], golden["W"]) == pytest.approx(
        float(golden["subspace_distance"]), rel=1e-10
    )
    assert distance(golden["L"], golden["L"]) == pytest.approx(0, abs=1e-12)


def test_its_limits():
    rng = np.random.default_rng(3)
    L = rng.normal(size=(30, 6))
    mixed = L @ rng.normal(size=(6, 6))  # other vectors, the same span
    assert distance(L, mixed) == pytest.approx(0, abs=1e-10)
    orthogonal = rng.normal(size=(30, 6))
    orthogonal -= basis(L) @ (basis(L).T @ orthogonal)
    assert distance(L, orthogonal) == pytest.approx(1, rel=1e-10)


def test_columns_that_depend_on_each_other_add_nothing():
    rng = np.random.default_rng(4)
    L, W = rng.normal(size=(30, 6)), rng.normal(size=(30, 4))
    doubled = np.hstack([W, W @ rng.normal(size=(4, 3))])
    assert basis(doubled).shape == (30, 4)
    assert distance(L, doubled) == pytest.approx(distance(L, W), rel=1e-9)


def test_the_cosines_hold_the_distance():
    rng = np.random.default_rng(5)
    L, W = basis(rng.normal(size=(40, 6))), basis(rng.normal(size=(40, 9)))
    shared = np.zeros(9)
    shared[:6] = cosines(L, W)
    assert projection_residual(L, W) ** 2 == pytest.approx(np.mean(1 - shared**2), rel=1e-10)


def test_random_spaces_are_as_far_as_is_said():
    rng = np.random.default_rng(6)
    pairs = [(rng.normal(size=(50, 20)), rng.normal(size=(50, 10))) for _ in range(200)]
    squared = [distance(L, W) ** 2 for L, W in pairs]
    assert math.sqrt(np.mean(squared)) == pytest.approx(math.sqrt(1 - 20 / 50), abs=0.01)


def test_a_tied_trial_is_at_0_and_an_untied_one_is_not(train, irlm):
    tied = train({**irlm.journal.trial.values, "head.tied": True}, "tied")
    finding = subspace_distance.run(irlm, tied, options=NoOptions())
    place = list(finding.columns).index("distance")
    assert finding.rows[0][place] > 0.5
    assert finding.rows[1][place] == pytest.approx(0, abs=1e-10)
