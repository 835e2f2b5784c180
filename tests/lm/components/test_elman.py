"""Simple recurrent layers against numpy, their limits, and the published size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.model.masks import OFF, Masks
from ablate.lm.model.optimizer import parameter_groups

BLOCKS = {
    "backbone.units": 6,
    "backbone.inputs": "embedding",
    "backbone.blocks": [4, 2],
    "backbone.block_diagonals": [0.9, 0.0],
    "backbone.block_rates": [0.01, 1.0],
    "backbone.recurrent_range": 0.0,
}


@pytest.fixture
def backbone(build):
    def built(values: dict):
        return build({"backbone": "elman", **values}).model.backbone

    return built


def by_hand(x, h, named, layer, f):
    """One layer in numpy, a step at a time."""
    weight_ih, bias = (named.get(f"{kind}_l{layer}") for kind in ("weight_ih", "bias"))
    outputs = []
    for x_BI in x:
        u = x_BI if weight_ih is None else x_BI @ weight_ih.T
        h = f(u + h @ named[f"weight_hh_l{layer}"].T + (0 if bias is None else bias))
        outputs.append(h)
    return np.stack(outputs)


@pytest.mark.parametrize(
    ("bias", "inputs", "activation", "f"),
    [
        (True, "matrix", "tanh", np.tanh),
        (True, "embedding", "relu", lambda x: x * (x > 0)),
        (False, "matrix", "relu", lambda x: x * (x > 0)),
    ],
)
def test_layers_are_the_equation(backbone, bias, inputs, activation, f):
    layers = backbone(
        {
            "backbone.num_layers": 2,
            "backbone.units": [6, 4],
            "backbone.bias": bias,
            "backbone.inputs": inputs,
            "backbone.activation": activation,
        }
    )
    x = torch.randn(5, 2, 6, dtype=torch.float64)
    state = tuple(torch.randn_like(s) for s in layers.initial_state(2))
    raw, _, after = layers(x, torch.zeros(5, 2), state, OFF)
    named = {name: p.detach().numpy() for name, p in layers.named_parameters()}
    assert ("weight_ih_l0" in named) == (inputs == "matrix")
    assert "weight_ih_l1" in named
    assert ("bias_l1" in named) == bias
    read = x.numpy()
    for layer in range(2):
        read = by_hand(read, state[layer][0].numpy(), named, layer, f)
        torch.testing.assert_close(raw[layer], torch.from_numpy(read))
        torch.testing.assert_close(after[layer][0], torch.from_numpy(read[-1]))


def test_blocks_are_networks_that_do_not_meet(backbone):
    values = {**BLOCKS, "backbone.recurrent_range": 0.5}
    layers = backbone(values)
    assert {n: tuple(p.shape) for n, p in layers.named_parameters()} == {
        "weight_hh_l0_0": (4, 4),
        "weight_hh_l0_1": (2, 2),
    }
    x, before = torch.randn(5, 2, 6).double(), torch.randn(1, 2, 6).double()
    raw, _, _ = layers(x, torch.zeros(5, 2), (before,), OFF)
    for index, units in enumerate((slice(0, 4), slice(4, 6))):
        named = {"weight_hh_l0": layers.get_parameter(f"weight_hh_l0_{index}").detach().numpy()}
        alone = by_hand(
            x[..., units].numpy(), before[0][:, units].numpy(), named, 0, lambda x: x * (x > 0)
        )
        torch.testing.assert_close(raw[0][..., units], torch.from_numpy(alone))


def test_blocks_start_and_learn_as_asked(build):
    model = build({"backbone": "elman", **BLOCKS}).model
    expected = torch.diag(torch.tensor([0.9] * 4 + [0.0] * 2)).double()
    torch.testing.assert_close(model.backbone.recurrent_matrix(0), expected, rtol=0, atol=1e-7)
    shares = {
        group["rate_scale"]: [tuple(p.shape) for p in group["params"]]
        for group in parameter_groups(model)
    }
    assert shares[0.01] == [(4, 4)]
    assert (2, 2) in shares[1.0]


def test_an_echo_state_has_its_radius_and_stays(build):
    values = {
        "backbone": "elman",
        "backbone.units": 12,
        "backbone.spectral_radius": 0.95,
        "backbone.recurrent_rate": 0.0,
    }
    model = build(values).model
    weight = model.backbone.weight_hh_l0
    radius = np.abs(np.linalg.eigvals(weight.detach().numpy())).max()
    assert radius == pytest.approx(0.95, abs=1e-6)
    assert not weight.requires_grad
    assert all(weight is not p for group in parameter_groups(model) for p in group["params"])
    plain = build({"backbone": "elman", "backbone.units": 12}).model.backbone.weight_hh_l0
    ratio = weight / plain
    torch.testing.assert_close(ratio, torch.full_like(ratio, ratio[0, 0].item()), rtol=1e-5, atol=0)


def test_the_recurrent_state_is_masked_where_it_is_read(backbone):
    layers = backbone({"backbone.num_layers": 2, "backbone.activation": "tanh"})
    x, before = torch.randn(4, 2, 6).double(), layers.initial_state(2)
    mask = torch.randint(0, 2, (1, 2, 7)).double() * 2

    class Held(Masks):
        def locked(self, site, shape, like):
            assert shape == (1, 2, 7)
            return mask if site == "recurrent/1" else None

    raw, _, _ = layers(x, torch.zeros(4, 2), before, Held())
    h, named = torch.zeros(2, 7).double(), dict(layers.named_parameters())
    for step in range(4):
        read = h * mask[0]
        h = (x[step] @ named["weight_ih_l0"].t() + read @ named["weight_hh_l0"].t()).tanh()
        torch.testing.assert_close(raw[0][step], h)
    expected = by_hand(
        raw[0].detach().numpy(), 0 * h.detach().numpy(),
        {name: p.detach().numpy() for name, p in named.items()}, 1, np.tanh,
    )  # fmt: skip
    torch.testing.assert_close(raw[1], torch.from_numpy(expected))


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"inputs": "embedding", "units": 7}, ("embedding.size = 6", "7 units", "'matrix'")),
        ({"units": [5, 4], "num_layers": 3}, ("has 2 numbers", "backbone.num_layers = 3")),
        ({"units": 7, "blocks": [4, 2]}, ("[4, 2] have 6 units", "a layer has 7")),
        ({"units": 6, "blocks": [4, 2], "block_rates": [0.1]}, ("1 values for 2 blocks",)),
        ({"spectral_radius": 0.9, "initial_range": 0.0}, ("initial_range = 0", "above 0")),
        ({"spectral_radius": 0.9, "recurrent_range": 0.0}, ("recurrent_range = 0", "above 0")),
    ],
)
def test_what_does_not_fit_is_refused_with_the_ways_out(backbone, values, parts):
    with pytest.raises(CombinationError) as refusal:
        backbone({f"backbone.{name}": value for name, value in values.items()})
    for part in parts:
        assert part in str(refusal.value)
