"""Halving by its own fields; what the optimizers' older fields translate to is in their tests."""

from __future__ import annotations

from tests.support.rates import rates_by_epoch

HALVING = {"schedule": "halving", "optimizer.learning_rate": 8.0}


def test_it_halves_after_epochs_that_were_not_better():
    assert rates_by_epoch(HALVING, [5.0, 4.0, 4.0, 4.5, 4.2]) == [8, 8, 8, 4, 2, 2]


def test_it_halves_after_every_epoch_from_some_on():
    always = {**HALVING, "schedule.when": "epoch", "schedule.flat_epochs": 3}
    assert rates_by_epoch(always, [1.0] * 4) == [8, 8, 8, 4, 2]
