"""The constant schedule leaves no trace in a config, unless it has a warm-up."""

from __future__ import annotations

import pytest

from ablate.config.resolve import resolve
from ablate.errors import CombinationError
from tests.support.rates import MODEL, rates_by_epoch, rates_by_update


def test_it_is_the_only_one_that_recorded_trials_had():
    named, plain = resolve({**MODEL, "schedule": "constant"}), resolve(MODEL)
    assert named.identity == plain.identity and named.flat == plain.flat
    assert "schedule" not in plain.flat and plain.schedule.name == "constant"
    assert resolve({**MODEL, "schedule.warmup": 5}).identity["schedule"]["warmup"] == 5


def test_it_may_warm_up():
    assert rates_by_update({"schedule.warmup": 3}, 4) == pytest.approx([0.25, 0.5, 0.75, 1, 1])


def test_it_gives_its_warm_up_to_the_optimizers_own_schedule():
    values = {"schedule.warmup": 3, "optimizer.decay": 2.0, "optimizer.learning_rate": 8.0}
    schedule = resolve({**MODEL, **values}).schedule
    assert (schedule.name, schedule.config.divisor, schedule.config.warmup) == ("halving", 2.0, 3)
    rates = rates_by_epoch(values, [1.0] * 3)  # of update 0, the first of four that rise
    assert rates == pytest.approx([2, 1, 0.5, 0.25])


@pytest.mark.parametrize(
    ("own", "way_out"),
    [
        ({"optimizer.decay": 1.15}, r"optimizer\.decay = 1\.15 both .*set optimizer\.decay = 1\.0"),
        (
            {"optimizer": "adam", "optimizer.schedule": "patience"},
            "optimizer.schedule = 'constant'",
        ),
    ],
)
def test_a_schedule_beside_the_optimizers_own_is_refused(own, way_out):
    with pytest.raises(CombinationError, match=way_out):
        resolve({**MODEL, **own, "schedule": "cosine"})
