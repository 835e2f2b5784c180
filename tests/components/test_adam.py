"""Adam against its algorithm written out, and the rate by epoch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from ablate.components.optimizer.adam import Adam, AdamConfig


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
    ],
)
def test_the_rate_by_epoch(schedule, expected):
    config = AdamConfig(learning_rate=1.0, schedule=schedule, decay=4.0, flat_epochs=2)
    optimizer = Adam(config, nn.Linear(1, 1))
    rates = []
    for epoch in range(1, 5):
        rates.append(optimizer.rate)
        optimizer.epoch_ended(epoch, 1.0)
    assert rates == pytest.approx(expected)


def rates_of(losses, **config):
    """The rate in each epoch, the one after the last included."""
    config = AdamConfig(learning_rate=1.0, schedule="patience", decay=10.0, **config)
    optimizer, rates = Adam(config, nn.Linear(1, 1)), []
    for epoch, loss in enumerate(losses, 1):
        rates.append(optimizer.rate)
        event = optimizer.epoch_ended(epoch, loss)
        assert bool(event) == (optimizer.rate < rates[-1])
    return [*rates, optimizer.rate]


def test_the_rate_drops_after_epochs_without_a_new_best():
    """The best is the first epoch's: drops after epochs 1 + 2, and every two from then on."""
    rates = rates_of([5.0, 6.0, 5.0, 5.5, 5.0, 4.0, 4.5, 3.0], patience=2)
    assert rates == pytest.approx([1, 1, 1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01])


def test_a_new_best_puts_the_drop_off():
    assert rates_of([5.0, 6.0, 4.0, 6.0, 3.0, 6.0], patience=2) == [1.0] * 7


def test_the_first_drop_has_a_latest_epoch_and_later_ones_have_none():
    rates = rates_of([5.0, 4.0, 3.0, 2.0, 1.0], patience=3, first_drop=2)
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.1, 0.1])


def test_drops_are_resumed():
    config = AdamConfig(schedule="patience", patience=2)
    whole, resumed = Adam(config, nn.Linear(1, 1)), Adam(config, nn.Linear(1, 1))
    for epoch in range(1, 4):
        whole.epoch_ended(epoch, float(epoch))
    resumed.restore(*whole.saved())
    resumed.epoch_ended(4, 9.0)
    assert resumed.rate == whole.rate
    assert resumed.epoch_ended(5, 9.0) == "learning rate 0.0005 -> 0.00025"


def test_without_a_mean_gradient_it_is_rmsprop_with_a_correction_for_the_start():
    model = nn.Linear(2, 1, bias=False).double()
    optimizer = Adam(AdamConfig(learning_rate=0.1, beta1=0.0, epsilon=1e-8), model)
    w, v = model.weight.detach().clone(), torch.zeros(1, 2, dtype=torch.float64)
    for t in range(1, 5):
        gradient = torch.full_like(w, float(t))
        model.weight.grad = gradient.clone()
        v = 0.999 * v + 0.001 * gradient**2
        w = w - 0.1 * gradient / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
        optimizer.step()
    torch.testing.assert_close(model.weight.detach(), w, rtol=0, atol=1e-12)


def test_the_step_counter_of_fused_steps_stays_on_the_parameters_device():
    """On a GPU, torch's fused Adam expects it there."""
    tensors = {"0.step": torch.zeros((), device="meta")}
    optimizer = Adam(AdamConfig(), nn.Linear(1, 1, bias=False, device="meta"))
    optimizer.restore(tensors, {})
    (state,) = optimizer.torch.state.values()
    assert state["step"].device.type == "meta"
