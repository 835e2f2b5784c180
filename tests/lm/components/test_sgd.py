"""Gradient descent: step and momentum, schedules, and resuming from a checkpoint."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from ablate.errors import CombinationError
from ablate.lm.components.optimizer.sgd import Sgd, SgdConfig
from tests.support.rates import rates_by_epoch

TARGET = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)


OWN = {"learning_rate": 8.0, "decay": 2.0}


def rates(losses, **settings) -> list[float]:
    """The rate of each epoch, by the optimizer's own fields."""
    own = {**OWN, **settings}
    return rates_by_epoch({f"optimizer.{k}": v for k, v in own.items()}, losses)[:-1]


@pytest.mark.parametrize(
    ("counting", "expected"),
    [
        ("zaremba", [8, 8, 8, 4, 2, 1]),  # flat 2: the first lower one is epoch number 4
        ("tensorflow", [8, 8, 4, 2, 1, 0.5]),
    ],
)
def test_the_rate_is_flat_and_then_divided(counting, expected):
    assert rates([1.0] * 6, flat_epochs=2, counting=counting) == expected


VALUES = [5.0, 4.0, 4.0, 4.5, 4.2, 4.3]  # better in epochs 2 and 5


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [8, 8, 8, 4, 2, 2]),
        ({"validation": "better"}, [8, 8, 4, 4, 4, 2]),
        ({"flat_epochs": 3}, [8, 8, 8, 8, 4, 4]),
        ({"flat_epochs": 3, "counting": "tensorflow"}, [8, 8, 8, 4, 2, 2]),
        ({"counting": "tensorflow"}, [8, 8, 8, 4, 2, 2]),
    ],
)
def test_validation_divides_the_rate(settings, expected):
    assert rates(VALUES, schedule="validation", **settings) == expected


def test_perplexity_may_have_to_fall_by_a_certain_amount():
    """A fall by 1.1 is enough, one by 0.9 is not. The first to count is that of the third epoch, as
    in the script of Kim et al."""
    values = [math.log(p) for p in (100, 100.5, 99.4, 98.5, 98.6, 97.5, 98.0, 90.0)]
    asked = rates(values, schedule="validation", least_fall=1.0, flat_epochs=2)
    assert asked == [8, 8, 8, 8, 4, 2, 2, 1]


def test_rates_have_the_bits_of_recorded_trials():
    """A quotient, as trials of 0.1.0 had it: the product with 1/1.15 has other bits."""
    recorded = [30 / 1.15 ** max(epoch - 6, 0) for epoch in range(40)]
    assert recorded != [30 * (1 / 1.15 ** max(epoch - 6, 0)) for epoch in range(40)]
    assert rates([1.0] * 40, learning_rate=30.0, decay=1.15, flat_epochs=6) == recorded


def test_a_step_is_the_formula():
    model = nn.Linear(3, 1)
    before = model.weight.detach().clone()
    optimizer = Sgd(SgdConfig(learning_rate=0.5, weight_decay=0.1), model)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step(scale=0.5)
    torch.testing.assert_close(model.weight, before - 0.25 * (2 + 0.1 * before))
    assert optimizer.rate == 0.5


def bowl() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 1, bias=False).double()


def update(model: nn.Linear, optimizer: Sgd, scale: float = 1.0) -> None:
    model.zero_grad()
    ((model.weight - TARGET) ** 2).sum().backward()
    optimizer.step(scale)


@pytest.mark.parametrize(
    ("settings", "momentum"),
    [({"momentum": 0.6}, 0.6), ({"momentum_tokens": 1000.0}, 0.3), ({"momentum_tokens": 700}, 0)],
)
def test_momentum_adds_the_gradients_up(settings, momentum):
    model = bowl()
    w, v = model.weight.detach().clone(), 0.0
    optimizer = Sgd(SgdConfig(learning_rate=0.1, **settings), model)
    optimizer.prepare(700)
    for scale in (1.0, 0.5, 2.0, 1.0):
        v = momentum * v + 2 * (w - TARGET)
        w = w - 0.1 * scale * v
        update(model, optimizer, scale)
        torch.testing.assert_close(model.weight.detach(), w, rtol=0, atol=1e-13)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(CombinationError, match=r"momentum = 0.5 and .*_tokens = 9 both set"):
        Sgd(SgdConfig(momentum=0.5, momentum_tokens=9), nn.Linear(1, 1))
    optimizer = Sgd(SgdConfig(momentum_tokens=699), nn.Linear(1, 1))
    with pytest.raises(CombinationError, match=r"momentum_tokens = 699 .* one update has 700 tok"):
        optimizer.prepare(700)


def test_a_checkpoint_from_before_schedules_were_a_slot_still_opens():
    tensors, plain = Sgd(SgdConfig(), nn.Linear(1, 1)).saved()
    recorded = {"epochs_done": 3, "withheld": 1, "last_valid": 4.5}
    Sgd(SgdConfig(), nn.Linear(1, 1)).restore(tensors, {**plain, **recorded})
