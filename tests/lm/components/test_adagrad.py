"""Adagrad against its algorithm written out, with its state restored in between."""

from __future__ import annotations

import torch
from torch import nn

from ablate.lm.components.optimizer.adagrad import Adagrad, AdagradConfig

TARGET = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)


def test_steps_are_the_algorithm():
    model = nn.Linear(3, 1, bias=False).double()
    config = AdagradConfig(learning_rate=0.5, initial_sum=0.1, epsilon=1e-6, weight_decay=0.01)
    optimizer = Adagrad(config, model)
    w, s = model.weight.detach().clone(), torch.full((1, 3), 0.1, dtype=torch.float64)
    for number in range(5):
        if number == 3:  # as after a kill
            saved = optimizer.saved()
            optimizer = Adagrad(config, model)
            optimizer.restore(*saved)
        model.zero_grad()
        (model.weight - TARGET).square().sum().backward()
        gradient = 2 * (w - TARGET) + 0.01 * w
        s = s + gradient**2
        w = w - 0.5 * gradient / (s.sqrt() + 1e-6)
        optimizer.step()
        torch.testing.assert_close(model.weight.detach(), w, rtol=0, atol=1e-12)
