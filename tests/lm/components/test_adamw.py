"""AdamW against its algorithm written out in float64, and what decays."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ablate.lm.components.optimizer.adamw import AdamW, AdamwConfig
from ablate.lm.testing import SmallModel

TARGET = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)


@pytest.mark.parametrize("decayed", ["matrices", "all"])
def test_steps_are_the_algorithm(decayed):
    model = nn.Linear(3, 1).double()
    config = AdamwConfig(
        learning_rate=0.1, beta1=0.8, beta2=0.95, epsilon=1e-6, weight_decay=0.3, decayed=decayed
    )
    optimizer = AdamW(config, model)
    named = [("weight", 0.3), ("bias", 0.3 if decayed == "all" else 0.0)]
    w = {name: getattr(model, name).detach().clone() for name, _ in named}
    m, v = ({name: torch.zeros_like(x) for name, x in w.items()} for _ in range(2))
    for t, scale in enumerate((1.0, 0.5, 2.0, 1.0), start=1):
        model.zero_grad()
        (((model.weight - TARGET) ** 2).sum() + (model.bias - 5).square().sum()).backward()
        gradients = {"weight": 2 * (w["weight"] - TARGET), "bias": 2 * (w["bias"] - 5)}
        for name, decay in named:
            m[name] = 0.8 * m[name] + 0.2 * gradients[name]
            v[name] = 0.95 * v[name] + 0.05 * gradients[name] ** 2
            step = (m[name] / (1 - 0.8**t)) / ((v[name] / (1 - 0.95**t)).sqrt() + 1e-6)
            w[name] = (1 - 0.1 * scale * decay) * w[name] - 0.1 * scale * step
        optimizer.step(scale)
        for name, expected in w.items():
            actual = getattr(model, name).detach()
            torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_word_vectors_and_output_matrices_may_keep_their_length():
    small = SmallModel(
        {"optimizer": "adamw"}, {"optimizer.weight_decay": 0.3, "optimizer.decayed": "hidden"}
    )
    names = {p: name for name, p in small.model.named_parameters()}
    decayed = {
        names[p]: group["weight_decay"]
        for group in small.config["optimizer"].make(small.model).torch.param_groups
        for p in group["params"]
    }
    assert set(decayed) == set(names.values())
    matrices = {name for name in decayed if name.startswith("backbone.weight")}
    assert {name for name, decay in decayed.items() if decay == 0.3} == matrices
    assert {name for name, decay in decayed.items() if decay == 0.0} == set(decayed) - matrices
