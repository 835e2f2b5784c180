"""Deep transitions against numpy and a plain RNN, their limits, and the size of the recipe."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.model.masks import OFF

E, STEPS, ROWS = 6, 5, 2


@pytest.fixture
def backbone(build):
    def built(**settings):
        values = {f"backbone.{name}": value for name, value in settings.items()}
        return build({"backbone": "deep_transition", **values}).model.backbone

    return built


def run(layers, x_TBE):
    h_1BH = torch.linspace(-1, 1, ROWS * layers.widths[0]).view(1, ROWS, -1).double()
    raw, _, (last,) = layers(x_TBE, None, (h_1BH,), OFF)
    assert torch.equal(last[0], raw[0][-1])
    return h_1BH, raw[0]


def words():
    return torch.randn(STEPS, ROWS, E, generator=torch.Generator().manual_seed(1)).double()


def read(named, inputs, level, widths, x):
    """What layer `level` (from 1) adds for the word."""
    bias = named.get(f"bias_{level}", 0)
    if inputs == "slices":
        start = sum(widths[: level - 1])
        return x[:, start : start + widths[level - 1]] + bias
    reads = {"all": True, "first": level == 1, "last": level == len(widths)}[inputs]
    return bias + (x @ named[f"weight_ih_{level}"].T if reads else 0)


@pytest.mark.parametrize(
    ("inputs", "shortcut", "bias"),
    [("all", True, True), ("first", False, True), ("last", True, False), ("slices", False, True)],
)
def test_it_is_the_equation(backbone, inputs, shortcut, bias):
    widths = (2, 2, 2) if inputs == "slices" else (4, 4, 3)  # a word vector has 6 units
    sizes = {"depth": 3, "units": widths[2], "inner_units": widths[0], "activation": "tanh"}
    layers = backbone(**sizes, inputs=inputs, shortcut=shortcut, bias=bias)
    x = words()
    h_1BH, output_TBH = run(layers, x)
    named = {name: p.detach().numpy() for name, p in layers.named_parameters()}
    assert any("shortcut" in name for name in named) == shortcut
    h, expected = h_1BH[0].numpy(), []
    for x_BE in x.numpy():
        below = h
        for level in (1, 2, 3):
            pre = below @ named[f"weight_hh_{level}"].T + read(named, inputs, level, widths, x_BE)
            if level > 1 and shortcut:
                pre = pre + h @ named[f"weight_shortcut_{level}"].T
            below = np.tanh(pre)
        h = below
        expected.append(h)
    np.testing.assert_allclose(output_TBH.detach().numpy(), np.stack(expected), rtol=1e-12)


def test_slices_need_a_word_vector_as_long_as_the_layers(backbone):
    with pytest.raises(CombinationError, match=r"Instead: embedding\.size = 8"):
        backbone(units=4, inputs="slices")
