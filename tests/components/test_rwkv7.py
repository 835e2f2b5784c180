"""RWKV-7 against its equations in numpy, its memory by chunks against its steps, and its parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from ablate.errors import CombinationError
from ablate.lm.components.backbone import _wkv7 as wkv7
from ablate.lm.components.backbone.rwkv7 import CHUNK, LOWEST
from ablate.lm.model.masks import OFF
from tests.support.chunks import assert_chunks_are_steps, counted

B, A, D = 2, 3, 4
RWKV = {"backbone": "rwkv7", "backbone.units": 8, "backbone.heads": 2, "backbone.rank": 3}


def drawn(steps: int, *, fastest: bool = False):
    """Inputs of the memory with gradients, and a state."""
    chance = torch.Generator().manual_seed(steps)

    def draw(*shape):
        return torch.randn(shape, generator=chance, dtype=torch.float64)

    log_w = LOWEST * (torch.ones(B, A, steps, D) if fastest else draw(B, A, steps, D).sigmoid())
    kappa, rate = F.normalize(draw(B, A, steps, D), dim=-1), draw(B, A, steps, D).sigmoid()
    r, k, v = (draw(B, A, steps, D) for _ in range(3))
    inputs = (r, log_w.double(), k, v, -kappa, rate * kappa)
    return [x.detach().requires_grad_() for x in inputs], draw(B, A, D, D).requires_grad_()


def by_matrices(r, w, k, v, kappa, a, s):
    """The memory of one row and head, in numpy: S [D of the value, D of the key]."""
    outputs = []
    for t in range(len(r)):
        s = s @ (np.diag(w[t]) - np.outer(kappa[t], a[t] * kappa[t])) + np.outer(v[t], k[t])
        outputs.append(s @ r[t])
    return np.array(outputs).reshape(len(r), -1), s


def test_the_steps_are_the_equation():
    inputs, state = drawn(6)
    outputs, last = wkv7.steps(*inputs, state)
    r, log_w, k, v, z, b = (x[1, 2].detach().numpy() for x in inputs)
    kappa = -z
    start = state[1, 2].T.detach().numpy()
    expected, s = by_matrices(r, np.exp(log_w), k, v, kappa, b / kappa, start)
    np.testing.assert_allclose(outputs[1, 2].detach(), expected, atol=1e-12)
    np.testing.assert_allclose(last[1, 2].T.detach(), s, atol=1e-12)


@pytest.mark.parametrize("run", [wkv7.steps, wkv7.chunk])
def test_a_key_that_is_removed_at_rate_1_is_replaced(run):
    """Without decay: what was under a key is gone, and what is under another one stays."""
    one, other = torch.eye(D, dtype=torch.float64)[:2]
    keys = torch.stack((one, other, one, one))[None, None]
    asked = torch.stack((one, one, other, one))[None, None]
    values = torch.randn(1, 1, 4, D, generator=torch.Generator().manual_seed(0)).double()
    start = torch.zeros(1, 1, D, D).double()
    outputs, _ = run(asked, torch.zeros_like(keys), keys, values, -keys, keys, start)
    torch.testing.assert_close(outputs[0, 0], values[0, 0, [0, 0, 1, 3]])


@pytest.mark.parametrize("steps", [1, 2, 7, 65])
def test_chunks_are_steps(steps):
    assert_chunks_are_steps(wkv7.chunk, wkv7.steps, *drawn(steps), CHUNK)


def test_a_chunk_of_the_fastest_decay_is_exact_enough_in_float32():
    inputs, state = drawn(3 * CHUNK, fastest=True)
    with torch.no_grad():
        expected, _ = wkv7.steps(*inputs, state)
        rounded = [x.float() for x in (*inputs, state)]
        outputs = []
        for pieces in zip(*(x.split(CHUNK, 2) for x in rounded[:-1]), strict=True):
            output, rounded[-1] = wkv7.chunk(*pieces, rounded[-1])
            outputs.append(output.double())
    torch.testing.assert_close(torch.cat(outputs, 2), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("steps", [1, 24])
def test_operations_are_what_torch_counts(steps):
    """But for the triangular system, half as many as a product of its size."""
    inputs, state = drawn(steps)
    size = min(steps, 8)
    assert counted(wkv7.chunk, 8, inputs, state) + size * D == wkv7.operations(steps, 8, D)


def test_a_model_counts_them(build):
    backbone = build(RWKV).model.backbone
    assert backbone.operations(5) == 2 * 2 * wkv7.operations(5, CHUNK, 4)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layer_norm(x, p, name, epsilon=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return normed * p[f"{name}.scale"].reshape(x.shape[1:]) + p[f"{name}.bias"].reshape(x.shape[1:])


def mixed(x, mu):
    before = np.concatenate((np.zeros_like(x[:1]), x[:-1]))
    return x + (before - x) * mu


def low_rank(p, name, x, f=lambda inner: inner):
    return f(x @ p[f"{name}.first"].T) @ p[f"{name}.second"].T + p.get(f"{name}.bias", 0)


def time_mixing(p, x, heads, first):
    """What is added to the stream by hand, and v before it is mixed: x [T, H] of one row."""
    on = {name: mixed(x, p[f"shift.mu_{name}"]) for name in "rkvwag"}
    r, k, v = (on[name[0]] @ p[f"{name}.weight"].T for name in ("receptance", "key", "value"))
    own = v
    if first is not None:
        v = v + (first - v) * sigmoid(low_rank(p, "mixture", on["v"]))
    w = np.exp(-math.exp(-0.5) * sigmoid(low_rank(p, "decay", on["w"], np.tanh)))
    a = sigmoid(low_rank(p, "rate", on["a"]))
    g = low_rank(p, "gate", on["g"], sigmoid)
    kappa = k * p["removal"]
    k = k * (1 + (a - 1) * p["replacement"])
    by_head = [np.split(each, heads, axis=1) for each in (r, w, k, v, kappa, a, p["bonus"][None])]
    outputs, bonuses = [], []
    for *parts, removed, rate, bonus in zip(*by_head, strict=True):
        removed = removed / np.linalg.norm(removed, axis=1, keepdims=True)
        size = removed.shape[1]
        outputs.append(by_matrices(*parts, removed, rate, np.zeros((size, size)))[0])
        bonuses.append((parts[0] * bonus * parts[2]).sum(1, keepdims=True) * parts[3])
    normed = layer_norm(np.stack(outputs, 1), p, "norm", 1e-5 * size)
    return (g * (normed + np.stack(bonuses, 1)).reshape(len(x), -1)) @ p["out.weight"].T, own


def below(p, start):
    return {name.removeprefix(start): w for name, w in p.items() if name.startswith(start)}


@pytest.mark.parametrize("value_residual", [True, False])
def test_the_backbone_is_the_equations(build, value_residual):
    """Over two windows, from parameters that are far from where they start."""
    values = {**RWKV, "backbone.value_residual": value_residual}
    backbone = build({**values, "embedding.size": 6}).model.backbone
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.normal_(0, 0.5, generator=chance)
    x = torch.randn(7, 2, 6, generator=chance, dtype=torch.float64)
    state, windows = backbone.initial_state(2), []
    for window in x.split((2, 5)):
        raw, _, state = backbone(window, None, state, OFF)
        windows.append(raw)
    p = {name: parameter.detach().numpy() for name, parameter in backbone.named_parameters()}
    stream, first = layer_norm(x[:, 1].numpy() @ p["enter.weight"].T, p, "first_norm"), None
    for number in range(2):
        own = below(p, f"layers.{number}.")
        reads = first if value_residual else None
        added, v = time_mixing(below(own, "time."), layer_norm(stream, own, "time_norm"), 2, reads)
        first, stream = v if first is None else first, stream + added
        read = mixed(layer_norm(stream, own, "channel_norm"), own["channel.shift.mu_k"])
        inner = np.maximum(read @ own["channel.key.weight"].T, 0) ** 2
        stream = stream + inner @ own["channel.value.weight"].T
        expected = layer_norm(stream, p, "norm") if number == 1 else stream
        actual = torch.cat([raw[number] for raw in windows])[:, 1].detach()
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10)


def test_parameters_start_as_described(build):
    backbone = build({**RWKV, "backbone.units": 100}).model.backbone
    first, last = (layer.time for layer in backbone.layers)
    for time in (first, last):
        decay = (LOWEST * time.decay.bias.sigmoid()).exp()
        assert (decay.diff() < 0).all() and decay[0] > 0.998 and 0.85 < decay[-1] < 0.91
        assert not time.out.weight.any() and not time.bonus.any()
        assert time.shift.mu_r[0] == 1 and (time.shift.mu_r.diff() < 0).all()
    assert (first.decay.bias[1:-1] > last.decay.bias[1:-1]).all()
    assert first.norm.scale.tolist() == pytest.approx([0.5**0.7] * 100)
    assert (last.norm.scale == 1).all()
    apart = first.decay.second.t() @ first.decay.second
    torch.testing.assert_close(apart, 0.01 * torch.eye(3, dtype=apart.dtype))
    for matrix, bound in ((first.key, 0.05), (first.value, 0.5)):
        assert matrix.weight.std().item() == pytest.approx(bound / math.sqrt(300), rel=0.05)


def test_parts_can_be_left_out(build):
    """Without value residual or bonus, these parameters alone are gone."""
    whole = {name for name, _ in build(RWKV).model.named_parameters()}
    for field, gone in (("bonus", "time.bonus"), ("value_residual", "time.mixture")):
        left = {n for n, _ in build({**RWKV, f"backbone.{field}": False}).model.named_parameters()}
        assert left < whole and all(gone in name for name in whole - left)


def test_heads_that_do_not_divide_the_units_are_refused(build):
    with pytest.raises(CombinationError, match=r"Instead: a number of heads that does"):
        build({**RWKV, "backbone.heads": 3})
