"""The root of the epoch, under a warm-up."""

from __future__ import annotations

import pytest

from tests.support.rates import rates_by_epoch


def test_the_first_epoch_has_the_full_rate():
    values = {"schedule": "inverse_sqrt", "optimizer.learning_rate": 6.0}
    assert rates_by_epoch(values, [1.0] * 3) == pytest.approx([6, 6 / 2**0.5, 6 / 3**0.5, 3])
