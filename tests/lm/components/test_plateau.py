"""The rate drops after epochs without a new best on validation."""

from __future__ import annotations

import random

import pytest

from ablate.lm.components.schedule.plateau import PlateauConfig, drops
from tests.support.rates import rates_by_epoch


def rates_of(losses, **config):
    """The rate in each epoch, the one after the last included."""
    values = {"schedule": "plateau", **{f"schedule.{k}": v for k, v in config.items()}}
    return rates_by_epoch({"optimizer.learning_rate": 1.0, **values}, losses)


def test_the_rate_drops_after_epochs_without_a_new_best():
    """The best is the first epoch's: drops after epochs 1 + 2, and every two from then on."""
    rates = rates_of([5.0, 6.0, 5.0, 5.5, 5.0, 4.0, 4.5, 3.0], patience=2)
    assert rates == pytest.approx([1, 1, 1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01])


def test_a_new_best_puts_the_drop_off():
    assert rates_of([5.0, 6.0, 4.0, 6.0, 3.0, 6.0], patience=2) == [1.0] * 7


def test_the_first_drop_has_a_latest_epoch_and_later_ones_have_none():
    rates = rates_of([5.0, 4.0, 3.0, 2.0, 1.0], patience=3, first_drop=2)
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.1, 0.1])


@pytest.mark.parametrize("first_drop", [None, 3])
def test_drops_are_those_of_trials_that_counted_them_epoch_by_epoch(first_drop):
    """Adam of 0.1.0 kept the epochs of its drops, and asked after every epoch."""
    drawn, config = random.Random(1), PlateauConfig(patience=3, first_drop=first_drop)
    losses = tuple(drawn.choice((1.0, 2.0, 3.0)) + drawn.random() for _ in range(200))
    dropped: list[int] = []
    for epoch in range(1, len(losses) + 1):
        late = not dropped and first_drop is not None and epoch >= first_drop
        since = dropped[-1] if dropped else 0
        best = losses.index(min(losses[:epoch])) + 1
        if late or epoch - max(best, since) >= config.patience:
            dropped.append(epoch)
        assert drops(config, losses[:epoch]) == len(dropped)
    assert len(dropped) > 5
