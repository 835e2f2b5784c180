"""Adam against its algorithm written out, and the schedule that its own fields are."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from ablate.lm.components.optimizer.adam import Adam, AdamConfig
from tests.support.rates import rates_by_epoch


@pytest.mark.slow
def test_steps_are_the_algorithm():
    model = nn.Linear(3, 1, bias=False).double()
    config = AdamConfig(learning_rate=0.1, beta1=0.8, beta2=0.95, epsilon=1e-6)
    optimizer = Adam(config, model)
    w = model.weight.detach().clone()
    m, v = torch.zeros_like(w), torch.zeros_like(w)
    for t in range(1, 6):
        model.zero_grad()
        ((model.weight - torch.tensor([1.0, 2.0, 3.0])) ** 2).sum().backward()
        gradient = 2 * (w - torch.tensor([1.0, 2.0, 3.0]))
        m = 0.8 * m + 0.2 * gradient
        v = 0.95 * v + 0.05 * gradient**2
        w = w - 0.1 * (m / (1 - 0.8**t)) / ((v / (1 - 0.95**t)).sqrt() + 1e-6)
        optimizer.step()
        torch.testing.assert_close(model.weight.detach(), w, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1.0] * 4),
        ("inverse_sqrt_epoch", [1 / math.sqrt(e) for e in range(1, 5)]),
        ("decay", [1.0, 1.0, 1 / 4, 1 / 16]),
        ("patience", [1.0, 1.0, 1 / 4, 1 / 4]),
    ],
)
def test_its_own_fields_are_a_schedule(schedule, expected):
    own = {"learning_rate": 1.0, "decay": 4.0, "flat_epochs": 2, "patience": 2, "first_drop": 2}
    values = {f"optimizer.{k}": v for k, v in own.items()}
    values |= {"optimizer": "adam", "optimizer.schedule": schedule}
    assert rates_by_epoch(values, [1.0] * 3) == pytest.approx(expected)


def test_the_step_counter_of_fused_steps_stays_on_the_parameters_device():
    """On a GPU, torch's fused Adam expects it there."""
    tensors = {"0.step": torch.zeros((), device="meta")}
    optimizer = Adam(AdamConfig(), nn.Linear(1, 1, bias=False, device="meta"))
    optimizer.restore(tensors, {})
    (state,) = optimizer.torch.state.values()
    assert state["step"].device.type == "meta"
