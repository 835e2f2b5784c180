"""The gated delta rule against matrices written out, its chunks against its steps, the hybrid."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.config.resolve import resolve
from ablate.errors import CombinationError
from ablate.lm.components.backbone import _delta_rule as rule
from ablate.lm.components.backbone.gated_delta import CHUNK, GatedDelta, GatedDeltaConfig
from ablate.lm.model.masks import OFF
from ablate.lm.testing import check_technique
from tests.support.chunks import assert_chunks_are_steps, counted
from tests.support.rates import MODEL

B, A, K, D = 2, 3, 4, 5
DELTA = {"backbone": "gated_delta", "backbone.units": 8, "backbone.heads": 2}


def drawn(steps: int, *, log_alpha: float = -0.3):
    """Inputs of the rule with gradients, and a state."""
    chance = torch.Generator().manual_seed(steps)

    def draw(*shape):
        return torch.randn(shape, generator=chance, dtype=torch.float64)

    keys = torch.nn.functional.normalize(draw(B, A, steps, K), dim=-1)
    rates = log_alpha * draw(B, A, steps).abs(), draw(B, A, steps).sigmoid()
    inputs = (draw(B, A, steps, K), keys, draw(B, A, steps, D), *rates)
    return [x.requires_grad_() for x in inputs], draw(B, A, K, D).requires_grad_()


def by_matrices(q, k, v, alpha, beta, s):
    """Equation 10 for one row and head, in numpy: S [D, K]."""
    outputs = []
    for t in range(len(q)):
        s = s @ (alpha[t] * (np.eye(len(k[t])) - beta[t] * np.outer(k[t], k[t])))
        s = s + beta[t] * np.outer(v[t], k[t])
        outputs.append(s @ q[t])
    return np.array(outputs), s


def test_the_steps_are_the_equation():
    inputs, state = drawn(6)
    outputs, last = rule.steps(*inputs, state)
    for row, head in ((0, 0), (1, 2)):
        q, k, v, log_alpha, beta = (x[row, head].detach().numpy() for x in inputs)
        start = state[row, head].T.detach().numpy()
        expected, s = by_matrices(q, k, v, np.exp(log_alpha), beta, start)
        np.testing.assert_allclose(outputs[row, head].detach(), expected, atol=1e-12)
        np.testing.assert_allclose(last[row, head].T.detach(), s, atol=1e-12)


@pytest.mark.parametrize(("steps", "size"), [(1, 8), (7, CHUNK), (65, 8), (65, CHUNK)])
def test_chunks_are_steps(steps, size):
    assert_chunks_are_steps(rule.chunk, rule.steps, *drawn(steps), size)


def test_chunks_are_steps_where_nearly_all_is_forgotten():
    """Exponents of -3000 within a chunk, and differences of 3000 that must not be computed."""
    assert_chunks_are_steps(rule.chunk, rule.steps, *drawn(40, log_alpha=-100.0), CHUNK)


@pytest.mark.parametrize("steps", [1, 24])
def test_operations_are_what_torch_counts(steps):
    """But for the triangular system, half as many as a product of its size."""
    inputs, state = drawn(steps)
    size = min(steps, 8)
    assert counted(rule.chunk, 8, inputs, state) + size * D == rule.operations(steps, 8, K, D)


def silu(x):
    return x / (1 + np.exp(-x))


def rms(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def layer_by_hand(p, x, heads):
    """A layer over a text from its start, in numpy, a step at a time: x [T, H] of one row."""
    units, length = x.shape[1], p["mixer.convolution.weight"].shape[2]
    normed = rms(x) * p["norm.scale"]
    read = normed @ p["mixer.query_key_value.weight"].T
    padded = np.concatenate((np.zeros((length - 1, read.shape[1])), read))
    kernel = p["mixer.convolution.weight"][:, 0]
    read = silu(sum(kernel[:, i] * padded[length - 1 - i :][: len(x)] for i in range(length)))
    rates = normed @ p["mixer.rates.weight"].T
    alpha = np.exp(
        -np.exp(p["mixer.log_decay"]) * np.log1p(np.exp(rates[:, :heads] + p["mixer.step_bias"]))
    )
    beta = 1 / (1 + np.exp(-rates[:, heads:]))
    read_of = []
    for head in range(heads):
        q, k = (
            part[:, head * units // heads :][:, : units // heads]
            for part in (read[:, :units], read[:, units : 2 * units])
        )
        values = read[:, 2 * units :]
        wide = values.shape[1] // heads
        v = values[:, head * wide :][:, :wide]
        q, k = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (q, k))
        out, _ = by_matrices(q, k, v, alpha[:, head], beta[:, head], np.zeros((wide, k.shape[1])))
        read_of.append(rms(out) * p["mixer.norm.scale"])
    gate = silu(normed @ p["mixer.gate.weight"].T)
    x = x + (np.concatenate(read_of, 1) * gate) @ p["mixer.out.weight"].T
    gate, inner = np.split((rms(x) * p["inner_norm.scale"]) @ p["inner.weight"].T, 2, axis=1)
    return x + (silu(gate) * inner) @ p["out.weight"].T


def test_the_backbone_is_the_equations(build):
    """Over two windows, from parameters that are far from where they start."""
    backbone = build({**DELTA, "backbone.convolution": 3}).model.backbone
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
    for number in range(2):
        start = f"layers.{number}."
        own = {name.removeprefix(start): w for name, w in p.items() if name.startswith(start)}
        expected = layer_by_hand(own, expected, heads=2)
        output = rms(expected) * p["norm.scale"] if number == 1 else expected
        actual = torch.cat([raw[number] for raw in windows])[:, 1].detach()
        np.testing.assert_allclose(actual, output, rtol=0, atol=1e-10)


HYBRID = {"backbone.attention_every": 2, "backbone.num_layers": 4}


def test_every_other_layer_can_have_attention(build):
    check_technique("backbone", "gated_delta", values={**HYBRID, "backbone.heads": 2})
    backbone = build({**DELTA, **HYBRID}).model.backbone
    kinds = [type(layer.mixer).__name__ for layer in backbone.layers]
    assert kinds == ["Memory", "Attention", "Memory", "Attention"]
    assert len(backbone.initial_state(3)) == 4
    turned = backbone.layers[1].mixer
    x = torch.randn(1, 2, 8).double().expand(5, 2, 8)  # the same at all steps: nothing to choose
    torch.testing.assert_close(turned(x, ())[0][4], turned(x[:1], ())[0][0])


def test_with_attention_the_length_of_windows_counts():
    for every, counts in ((0, False), (2, True)):
        values = {**MODEL, **DELTA, "backbone.attention_every": every, "evaluator": "standard"}
        ids = {str(resolve({**values, "training.valid_window": n}).identity) for n in (10, 20)}
        assert (len(ids) == 2) is counts
    # Known before a model is built: not that no layer would have attention.
    assert GatedDelta.memory_of(GatedDeltaConfig(attention_every=4)) == "exact"


@pytest.mark.parametrize(
    ("values", "way_out"),
    [
        ({"backbone.attention_every": 3}, "attention_every = 0"),
        ({"backbone.heads": 3}, "a number of heads that does"),
        ({"backbone.attention_every": 2, "backbone.heads": 8}, "an even number of units"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(build, values, way_out):
    with pytest.raises(CombinationError, match=f"Instead: .*{way_out}"):
        build({**DELTA, **values})
