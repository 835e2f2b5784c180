"""Deep transitions against numpy and a plain RNN, their limits, and the size of the recipe."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.config.resolve import resolve
from ablate.errors import CombinationError
from ablate.lm.model.assemble import count_parameters
from ablate.lm.model.masks import OFF
from ablate.space import space

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


def test_with_one_layer_it_is_a_simple_recurrent_network(build, backbone):
    deep = backbone(depth=1, units=4)
    values = {"backbone.units": 4, "backbone.activation": "sigmoid", "backbone.bias": True}
    simple = build({"backbone": "elman", **values}).model.backbone
    with torch.no_grad():
        for kind in ("weight_hh", "weight_ih", "bias"):
            simple.get_parameter(f"{kind}_l0").copy_(deep.get_parameter(f"{kind}_1"))
    x = words()
    h_1BH, expected = run(deep, x)
    raw, _, _ = simple(x, None, (h_1BH,), OFF)
    torch.testing.assert_close(raw[0], expected)


def test_its_gradients_are_those_of_finite_differences(backbone):
    deep = backbone(units=3, inputs="slices")
    x, h_1BH = words(), torch.randn(1, ROWS, 3).double()
    output = lambda *parameters: deep(x, None, (h_1BH,), OFF)[0][0]  # noqa: E731
    assert torch.autograd.gradcheck(output, tuple(deep.parameters()))


def test_slices_need_a_word_vector_as_long_as_the_layers(backbone):
    with pytest.raises(CombinationError, match=r"Instead: embedding\.size = 8"):
        backbone(units=4, inputs="slices")


def test_the_recipe_has_the_size_that_the_page_prints():
    """Two parts of a word vector, the output matrix and its bias, and five matrices with biases."""
    config = resolve(space.load("pascanu2014deep").values())
    n, words = 200, 10_000
    transition, output = 3 * n**2 + 2 * n, n * (2 * n) + n**2 + n
    expected = words * (2 * n + n + 1) + transition + output
    assert count_parameters(config, words) == expected == 6_250_600
