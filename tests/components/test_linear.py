"""A straight line, after a straight line up."""

from __future__ import annotations

import pytest

from tests.support.rates import rates_by_update


def test_a_warm_up_and_a_line_to_zero():
    values = {"schedule": "linear", "schedule.warmup": 3}
    expected = [0.25, 0.5, 0.75, 1, 0.8, 0.6, 0.4, 0.2, 0]
    assert rates_by_update(values, 8) == pytest.approx(expected)


def test_it_ends_at_its_floor():
    values = {"schedule": "linear", "schedule.floor": 0.5}
    assert rates_by_update(values, 4) == pytest.approx([1, 0.875, 0.75, 0.625, 0.5])


def test_a_training_may_end_within_its_warm_up():
    values = {"schedule": "linear", "schedule.warmup": 9}
    assert rates_by_update(values, 3) == pytest.approx([0.1, 0.2, 0.3, 0.4])
