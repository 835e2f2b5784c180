"""Up, level, and down in the last share of the updates."""

from __future__ import annotations

import pytest

from tests.support.rates import rates_by_update

WSD = {"schedule": "warmup_stable_decay", "schedule.share": 0.4}


def test_up_level_and_down():
    values = {**WSD, "schedule.warmup": 1}
    expected = [0.5, 1, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0]
    assert rates_by_update(values, 11) == pytest.approx(expected)


def test_the_root_falls_faster_at_first():
    values = {**WSD, "schedule.shape": "sqrt", "schedule.floor": 0.1}
    expected = [1] * 7 + [1 - 0.9 * part**0.5 for part in (0.25, 0.5, 0.75, 1)]
    assert rates_by_update(values, 10) == pytest.approx(expected)


@pytest.mark.parametrize(("share", "expected"), [(0.0, [1, 1, 1]), (1.0, [1, 0.5, 0])])
def test_the_share_may_be_none_or_all(share, expected):
    assert rates_by_update({**WSD, "schedule.share": share}, 2) == pytest.approx(expected)
