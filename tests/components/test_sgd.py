"""Gradient descent and its two ways to count flat epochs."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from ablate.components.optimizer.sgd import Sgd, SgdConfig


@pytest.mark.parametrize(
    ("counting", "expected"),
    [
        ("zaremba", [8, 8, 8, 4, 2, 1]),  # flat 2: the first lower one is epoch number 4
        ("tensorflow", [8, 8, 4, 2, 1, 0.5]),
    ],
)
def test_the_rate_is_flat_and_then_divided(counting, expected):
    config = SgdConfig(learning_rate=8, decay=2, flat_epochs=2, counting=counting)
    optimizer = Sgd(config, nn.Linear(1, 1))
    rates, said = [], []
    for epoch in range(1, 7):
        rates.append(optimizer.rate)
        said.append(optimizer.epoch_ended(epoch, 1.0))
    assert rates == expected
    assert [text is None for text in said] == [a == b for a, b in pairwise([*rates, 0])]


def test_a_step_is_the_formula():
    model = nn.Linear(3, 1)
    before = model.weight.detach().clone()
    optimizer = Sgd(SgdConfig(learning_rate=0.5, weight_decay=0.1), model)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step(scale=0.5)
    torch.testing.assert_close(model.weight, before - 0.25 * (2 + 0.1 * before))
    assert optimizer.rate == 0.5
