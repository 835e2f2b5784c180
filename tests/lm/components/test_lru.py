"""The LRU against a loop in complex numbers, and where its eigenvalues start."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.backbone.lru import eigenvalues, in_ring
from ablate.lm.model.masks import OFF
from tests.support.by_hand import gelu, numbers

LRU = {"backbone": "lru", "backbone.units": 5, "backbone.state": 4}
OFFS = {"backbone.normalize": False, "backbone.gated": False}
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-4}


def layer_norm(x, w, name):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * w[f"{name}.scale"] + w[f"{name}.bias"]


def block_by_hand(x_TBH, h_BN, w):
    """One block word by word, in complex numbers."""
    eigenvalue = np.exp(-np.exp(w["nu"]) + 1j * np.exp(w["theta"]))
    gamma = np.exp(w["log_gamma"]) if "log_gamma" in w else 1.0
    b = w["weight_b"][0::2] + 1j * w["weight_b"][1::2]
    c = w["weight_c"][:, 0::2] - 1j * w["weight_c"][:, 1::2]
    outputs = []
    for x in x_TBH:
        u = layer_norm(x, w, "norm")
        h_BN = eigenvalue * h_BN + gamma * np.einsum("nh,bh->bn", b, u)
        v = gelu(np.einsum("hn,bn->bh", c, h_BN).real + w["skip"] * u)
        if "weight_gate" in w:
            value, gate = np.split(v @ w["weight_gate"].T + w["bias_gate"], 2, -1)
            v = value / (1 + np.exp(-gate))
        outputs.append(x + v)
    return np.stack(outputs), h_BN


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("values", [{}, OFFS])
def test_layers_are_a_loop_in_complex_numbers(build, dtype, values):
    backbone = build({**LRU, **values}, dtype=dtype).model.backbone
    inputs = torch.randn(7, 2, 6, dtype=dtype)
    before = tuple(torch.randn_like(s) for s in backbone.initial_state(2))
    raw, _, after = backbone(inputs, torch.zeros(7, 2), before, OFF)
    x = inputs.double().numpy() @ backbone.stack.weight_ih.detach().double().numpy().T
    for block, output, first, last in zip(backbone.stack.blocks, raw, before, after, strict=True):
        first = first[0].double().numpy()
        x, h = block_by_hand(x, first[:, 0::2] + 1j * first[:, 1::2], numbers(block))
        wanted = layer_norm(x, numbers(backbone.stack), "last_norm") if output is raw[-1] else x
        near = {"rtol": 0, "atol": CLOSE[dtype]}
        torch.testing.assert_close(output.double(), torch.from_numpy(wanted), **near)
        held = np.stack((h.real, h.imag), -1).reshape(1, 2, 8)
        torch.testing.assert_close(last.double(), torch.from_numpy(held), **near)


def test_eigenvalues_start_uniform_over_the_ring():
    """So that the area within a radius, and the phase, are uniform."""
    radius, phase = torch.rand(2, 20_000, generator=torch.Generator().manual_seed(1))
    found = eigenvalues(*in_ring(radius, phase, 0.5, 0.9, 1.5))
    for value, low, high in ((found.abs() ** 2, 0.25, 0.81), (found.angle(), 0.0, 1.5)):
        share = ((value - low) / (high - low)).sort().values
        expected = (torch.arange(20_000) + 0.5) / 20_000
        assert (share - expected).abs().max() < 0.02  # Kolmogorov's distance


def test_the_ends_of_the_draws_give_finite_parameters():
    ends = torch.tensor([0.0, 1.0])
    nu, theta = in_ring(ends, ends, 0.0, 1.0, 6.28)
    assert torch.isfinite(torch.cat((nu, theta))).all()
    assert (eigenvalues(nu, theta).abs() <= 1).all()


def test_gamma_starts_so_that_the_state_is_as_large_as_its_input(build):
    """Of white noise with variance 1: sum_k |lambda|^2k gamma^2 = 1."""
    block = build(
        {**LRU, "backbone.r_min": 0.3, "backbone.r_max": 0.95}
    ).model.backbone.stack.blocks[0]
    sizes = eigenvalues(block.nu, block.theta).abs()
    assert ((sizes >= 0.3) & (sizes <= 0.95)).all()
    powers = sizes[None] ** (2 * torch.arange(1000)[:, None])
    sums = (powers * block.log_gamma.exp() ** 2).sum(0)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=1e-6, atol=0)


def test_an_empty_ring_is_refused(build):
    with pytest.raises(
        CombinationError, match=r"r_min = 0.9 and backbone.r_max = 0.9 .*r_min < r_max"
    ):
        build({**LRU, "backbone.r_min": 0.9, "backbone.r_max": 0.9})
