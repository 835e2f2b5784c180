"""Nadam against Keras 2.x's update, written out from its formula in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ablate.lm.components.optimizer.nadam import Nadam, NadamConfig

TARGET = np.array([1.0, -2.0, 3.0])


class Bowl(nn.Module):
    """f(w) = sum (w - target)^2 from w = 0."""

    def __init__(self, rate_scale: float = 1.0):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3, dtype=torch.float64))
        self.w.rate_scale = rate_scale

    def forward(self):
        return ((self.w - torch.tensor(TARGET)) ** 2).sum()


def update(bowl, optimizer, scale=1.0):
    bowl.zero_grad()
    bowl().backward()
    optimizer.step(scale)


def iterates(rates, beta1, beta2, epsilon, schedule_decay):
    """Keras' Nadam: both moments corrected by products of the momenta that were scheduled."""

    def momentum(t):
        return beta1 * (1 - 0.5 * 0.96 ** (t * schedule_decay))

    w, m, v, schedule = np.zeros(3), np.zeros(3), np.zeros(3), 1.0
    actual = []
    for t, rate in enumerate(rates, start=1):
        gradient = 2 * (w - TARGET)
        schedule_now = schedule * momentum(t)
        schedule_next = schedule_now * momentum(t + 1)
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        now, later = gradient / (1 - schedule_now), m / (1 - schedule_next)
        mean = (1 - momentum(t)) * now + momentum(t + 1) * later
        w = w - rate * mean / (np.sqrt(v / (1 - beta2**t)) + epsilon)
        schedule = schedule_now
        actual.append(w)
    return actual


@pytest.mark.parametrize("beta1", [0.9, 0.5, 0.0])
@pytest.mark.parametrize("schedule_decay", [0.004, 0.5])
def test_steps_are_those_of_keras(beta1, schedule_decay):
    settings = {"beta1": beta1, "beta2": 0.99, "epsilon": 1e-3, "schedule_decay": schedule_decay}
    bowl = Bowl()
    optimizer = Nadam(NadamConfig(learning_rate=0.1, **settings), bowl)
    scales = [1.0, 0.5, 1.5] * 7
    expected_by_update = iterates([0.1 * scale for scale in scales], **settings)
    for scale, expected in zip(scales, expected_by_update, strict=True):
        update(bowl, optimizer, scale)
        # torch keeps the product of the momenta in float32
        np.testing.assert_allclose(bowl.w.detach().numpy(), expected, rtol=0, atol=3e-7)


def test_its_defaults_are_those_of_keras():
    expected = iterates([0.001] * 5, beta1=0.9, beta2=0.999, epsilon=1e-7, schedule_decay=0.004)
    bowl = Bowl()
    optimizer = Nadam(NadamConfig(), bowl)
    for w in expected:
        update(bowl, optimizer)
        np.testing.assert_allclose(bowl.w.detach().numpy(), w, rtol=1e-6)
