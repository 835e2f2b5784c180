"""xLSTM's cells against equations without a stabilizer, chunks against steps, layers by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.components.backbone import _xlstm as cells
from ablate.lm.components.backbone.xlstm import CHUNK
from ablate.lm.model.masks import OFF, Chance, Masks
from ablate.lm.model.regularizer import Regularizer
from ablate.lm.testing import SmallModel, check_technique
from tests.support.chunks import assert_chunks_are_steps, counted

B, A, D = 2, 3, 4
XLSTM = {"backbone": "xlstm", "backbone.units": 8, "backbone.heads": 2}
BOTH = {**XLSTM, "backbone.slstm_at": (2,)}


def drawn(steps: int, *, size: float = 2.0):
    """Inputs of the mLSTM with gradients, and a state."""
    chance = torch.Generator().manual_seed(steps)

    def draw(*shape):
        return torch.randn(shape, generator=chance, dtype=torch.float64)

    v = torch.cat((draw(B, A, steps, D), torch.ones(B, A, steps, 1)), -1)
    gates = size * draw(B, A, steps), torch.nn.functional.logsigmoid(size * draw(B, A, steps))
    inputs = (draw(B, A, steps, D), draw(B, A, steps, D), v, *gates)
    state = draw(B, A, D, D + 1), draw(B, A)
    return [x.detach().requires_grad_() for x in inputs], [x.requires_grad_() for x in state]


def mlstm_by_hand(q, k, v, i, f, c=0.0, n=0.0):
    """Equations 19-21 of one row and head, in numpy, with exponential gates as they are."""
    outputs = []
    for t in range(len(q)):
        c = f[t] * c + np.exp(i[t]) * np.outer(v[t], k[t])
        n = f[t] * n + np.exp(i[t]) * k[t]
        outputs.append(c @ q[t] / max(abs(n @ q[t]), 1.0))
    return np.array(outputs)


def slstm_by_hand(pre, weight, forget):
    """Equations 8-14 of one row, in numpy: pre [T, A, 4 D], gates in the order i, f, z, o."""
    heads, _, size = weight.shape
    h = c = n = np.zeros((heads, size))
    outputs = []
    for now in pre:
        i, f, z, o = np.split(now + np.einsum("agd,ad->ag", weight, h), 4, axis=1)
        c, n = forget(f) * c + np.exp(i) * np.tanh(z), forget(f) * n + np.exp(i)
        h = sigmoid(o) * c / n
        outputs.append(h)
    return np.array(outputs)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_the_steps_of_mlstm_are_its_equations():
    inputs, (c, m) = drawn(9)
    outputs, (_, last_m) = cells.mlstm(*inputs, (c, m))
    q, k, v, i, log_f = (x[1, 2].detach().numpy() for x in inputs)
    memory = (c[1, 2] * m[1, 2].exp()).detach().numpy()  # what the state stands for
    own = (memory[:, :-1].T, memory[:, -1])
    expected = mlstm_by_hand(q, k, v[:, :-1], i, np.exp(log_f), *own)
    np.testing.assert_allclose(outputs[1, 2].detach(), expected, rtol=1e-10)
    assert (last_m >= inputs[3][:, :, -1]).all()  # no exponent was above 0


def test_chunks_keep_as_many_digits_as_steps():
    """In float32, also where a chunk forgets all but e^-1600 of what came before it."""
    inputs, state = ([x.detach().float() for x in given] for given in drawn(64))
    inputs[4] = -50 * torch.rand(inputs[4].shape, generator=torch.Generator().manual_seed(1))
    exact, _ = cells.mlstm(*(x.double() for x in inputs), [x.double() for x in state])
    runs = (cells.mlstm_chunk, cells.mlstm)
    chunks, steps = ((run(*inputs, state)[0] - exact).norm() / exact.norm() for run in runs)
    assert chunks < 3 * steps < 6e-6


@pytest.mark.parametrize(("steps", "size"), [(1, 8), (7, CHUNK), (65, 8), (65, CHUNK)])
def test_chunks_are_steps(steps, size):
    assert_chunks_are_steps(cells.mlstm_chunk, cells.mlstm, *drawn(steps), size)


def test_numbers_of_any_size_are_kept():
    """Gates of e^300 and e^-300, in float32: the plain equations would overflow."""
    inputs, _ = drawn(20, size=100.0)
    start = torch.zeros(B, A, D, D + 1), torch.zeros(B, A)
    single = [x.detach().float() for x in inputs]
    actual, state = cells.mlstm_chunk(*single, start)
    expected, _ = cells.mlstm(*inputs, [x.double() for x in start])
    assert all(torch.isfinite(x).all() for x in state)
    torch.testing.assert_close(actual.double(), expected.detach(), rtol=1e-3, atol=1e-4)
    pre = torch.cat((single[3], single[3].flip(2)), 1)[..., None].expand(B, 2 * A, 20, 4)
    weight, zeros = torch.zeros(2 * A, 4, 1), torch.zeros(B, 2 * A, 1)
    outputs, *state = cells.slstm(pre.permute(2, 0, 1, 3), weight, *[zeros] * 4)
    assert all(torch.isfinite(x).all() for x in (outputs, *state))
    assert (state[2] >= 1).all() and (outputs.abs() <= 1).all()


@pytest.mark.parametrize("scale", [-200.0, 200.0])
def test_gradients_are_finite_from_the_first_step(scale):
    """Where n is 0, and however small or large the first input gate is."""
    pre = torch.full((3, 1, 1, 4), scale, requires_grad=True)
    zero, weight = torch.zeros(1, 1, 1), torch.zeros(1, 4, 1, requires_grad=True)
    outputs, *_ = cells.slstm(pre, weight, zero, zero, zero, zero)
    q = torch.ones(1, 1, 3, 1)
    gates = torch.full((1, 1, 3), scale, requires_grad=True)
    start = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1)
    read, _ = cells.mlstm_chunk(q, q, torch.ones(1, 1, 3, 2), gates, -gates.abs(), start)
    gradients = torch.autograd.grad(outputs.sum() + read.sum(), [pre, weight, gates])
    assert all(torch.isfinite(x).all() for x in gradients)


@pytest.mark.parametrize("steps", [1, 24])
def test_operations_are_what_torch_counts(build, steps):
    inputs, state = drawn(steps)
    assert counted(cells.mlstm_chunk, 8, inputs, state) == cells.operations(steps, 8, D)
    backbone = build(BOTH).model.backbone  # one of its layers is an mLSTM, of 8 units a head
    assert backbone.operations(steps) == 2 * cells.operations(steps, CHUNK, 8)


def silu(x):
    return x * sigmoid(x)


def layer_norm(x, scale):
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return normed * scale.reshape(x.shape[1:])


def convolved(p, x):
    kernel, bias = p["convolution.weight"][:, 0], p["convolution.bias"]
    padded = np.concatenate((np.zeros((kernel.shape[1] - 1, x.shape[1])), x))
    return np.array(
        [bias + (kernel * padded[t : t + kernel.shape[1]][::-1].T).sum(1) for t in range(len(x))]
    )


def by_block(x, weight):
    """[T, A, D]: each head's part of x, by its own matrix."""
    parts = np.split(x, len(weight), axis=1)
    return np.stack([part @ w.T for part, w in zip(parts, weight, strict=True)], 1)


def matrix_layer(p, x, heads, forget):
    inner, gate = np.split(layer_norm(x, p["norm.scale"]) @ p["up.weight"].T, 2, axis=1)
    read = silu(convolved(p, inner))
    q, k = (by_block(read, p[f"{name}.weight"]) for name in ("query", "key"))
    v = by_block(inner, p["value.weight"])
    gates = np.concatenate((q, k, v), 2).reshape(len(x), -1) @ p["gates.weight"].T
    i, f = gates[:, :heads] + p["input_bias"], gates[:, heads:] + p["forget_bias"]
    k = k / math.sqrt(k.shape[2])
    h = [mlstm_by_hand(q[:, a], k[:, a], v[:, a], i[:, a], forget(f[:, a])) for a in range(heads)]
    normed = layer_norm(np.stack(h, 1), p["cell_norm.scale"]).reshape(len(x), -1)
    return x + ((normed + p["skip"] * read) * silu(gate)) @ p["down.weight"].T


def scalar_layer(p, x, heads, forget):
    normed = layer_norm(x, p["norm.scale"])
    read = silu(convolved(p, normed))
    gates = (by_block(read, p["convolved.weight"]), by_block(normed, p["direct.weight"]))
    pre = np.concatenate(gates, 2) + p["bias"].reshape(heads, -1)
    h = slstm_by_hand(pre, p["weight_hh"], forget)
    x = x + layer_norm(h, p["cell_norm.scale"]).reshape(x.shape)
    gate, inner = np.split(layer_norm(x, p["inner_norm.scale"]) @ p["inner.weight"].T, 2, axis=1)
    cumulative = np.vectorize(lambda y: (1 + math.erf(y / math.sqrt(2))) / 2)
    return x + (gate * cumulative(gate) * inner) @ p["out.weight"].T


@pytest.mark.parametrize(("forget", "function"), [("sigmoid", sigmoid), ("exp", np.exp)])
def test_the_backbone_is_the_equations(build, forget, function):
    """Over two windows, from parameters that are far from where they start."""
    backbone = build({**BOTH, "backbone.forget": forget}).model.backbone
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
    expected = x[:, 1].numpy() @ p["enter.weight"].T
    for number, layer in enumerate((matrix_layer, scalar_layer)):
        start = f"layers.{number}."
        own = {name.removeprefix(start): w for name, w in p.items() if name.startswith(start)}
        expected = layer(own, expected, 2, function)
        output = layer_norm(expected, p["norm.scale"]) if number == 1 else expected
        actual = torch.cat([raw[number] for raw in windows])[:, 1].detach()
        np.testing.assert_allclose(actual, output, rtol=0, atol=1e-9)


class Locked(Regularizer):
    """Masks on the state of the second layer, and on its recurrent matrices."""

    def locked(self, site, shape, like, chance):
        assert site == "recurrent/2"
        return torch.arange(like.numel()).view(shape).to(like) % 3

    def weight(self, name, weight, chance):
        assert name == "weight_hh_l1"
        return 2 * weight


def test_masks_act_on_what_the_gates_of_slstm_read(build):
    backbone = build(BOTH).model.backbone
    x = torch.randn(4, 1, 6, generator=torch.Generator().manual_seed(3)).double()
    masks = Masks((Locked(),), Chance(Streams(1), 0))
    masked, _, _ = backbone(x, None, backbone.initial_state(1), masks)
    mask = torch.arange(8).view(2, 1, 4) % 3
    with torch.no_grad():
        backbone.layers[1].weight_hh.mul_(2 * mask)
    raw, _, _ = backbone(x, None, backbone.initial_state(1), OFF)
    torch.testing.assert_close(masked, raw)


def test_all_layers_can_be_slstm():
    values = {"backbone.slstm_at": (1, 2), "backbone.convolution": 1, "backbone.heads": 1}
    check_technique("backbone", "xlstm", values={**values, "backbone.forget": "exp"})


def test_a_sentence_starts_h_alone():
    """Of a decoder: n and m of other values than 0 would stand for a past that never was."""
    model = SmallModel({"backbone": "xlstm"}, {"backbone.slstm_at": (2,)}, pairs=True).model
    starts = [type(start).__name__ for start in model.start]
    assert starts == ["Identity"] * 5 + ["Projection"]


def test_layers_that_do_not_exist_are_refused(build):
    with pytest.raises(CombinationError, match=r"Instead: layers from 1 to 2\."):
        build({**XLSTM, "backbone.slstm_at": (1, 3)})
