"""One rule of what is lost, wherever a verdict is given."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lab.calibration.rows.lost import WAYS, worst_lost


@pytest.mark.parametrize("way", WAYS)
def test_an_arm_that_lost_its_worst_quarter_is_never_called_better(way):
    found = worst_lost(np.random.default_rng(49), 2_000, seeds=12, way=way)
    assert found.twin is not None and found.twin.percent > 10
    assert (found.ours.num, found.ours.percent) == (80, 0.0)


@pytest.mark.parametrize("way", WAYS)
def test_an_arm_that_lost_nothing_may_be(way):
    losses = [
        [4.0 + 0.001 * seed**2 for seed in range(5)],
        [3.9 + 0.002 * seed for seed in range(5)],
    ]
    assert WAYS[way](losses, range(5))
    assert not WAYS[way](losses, range(4))
