"""Distances between spans against the golden reference, their limits and random spaces."""

from __future__ import annotations

import pytest

from ablate.lm.analysis.subspace_distance import basis, projection_residual


def distance(L, W) -> float:
    return projection_residual(basis(L), basis(W))


def test_the_golden_distance(vector):
    golden = vector("real_reference")
    assert distance(golden["L"], golden["W"]) == pytest.approx(
        float(golden["subspace_distance"]), rel=1e-10
    )
    assert distance(golden["L"], golden["L"]) == pytest.approx(0, abs=1e-12)
