"""The LSTM against an explicit loop, the public code's numbers, and the published sizes."""

from __future__ import annotations

import pytest
import torch

from ablate.config.streams import Streams
from ablate.lm.model.fast.lstm_steps import lstm_steps
from ablate.lm.model.masks import OFF, Chance, Masks
from tests.support.masked import gradients

both_ways = pytest.mark.usefixtures("both_ways")

CHANCE = Chance(Streams(1), 0)


def by_hand(x, h, c, weight_ih, weight_hh, bias):
    """One layer, a step at a time."""
    outputs = []
    for x_BI in x:
        i, f, g, o = (x_BI @ weight_ih.t() + h @ weight_hh.t() + bias).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    return torch.stack(outputs), h, c


@both_ways
@pytest.mark.parametrize("biases", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_layers_are_the_equations(build, biases, dtype):
    values = {"backbone.units": [5, 4, 3], "backbone.num_layers": 3, "backbone.biases": biases}
    backbone = build(values, dtype=dtype).model.backbone
    x = torch.randn(6, 2, 6, dtype=dtype)
    state = tuple(torch.randn_like(s) for s in backbone.initial_state(2))
    raw, masked, after = backbone(x, torch.zeros(6, 2), state, OFF)
    for layer in range(3):
        named = {
            n.rpartition("_l")[0]: p for n, p in backbone.named_parameters() if n[-1] == str(layer)
        }
        bias = named["bias_ih"] + (named["bias_hh"] if biases == 2 else 0)
        h, c = state[2 * layer][0], state[2 * layer + 1][0]
        x, h, c = by_hand(x, h, c, named["weight_ih"], named["weight_hh"], bias)
        close = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {}
        torch.testing.assert_close(raw[layer], x, **close)
        torch.testing.assert_close(after[2 * layer][0], h, **close)
        torch.testing.assert_close(after[2 * layer + 1][0], c, **close)
        assert torch.equal(raw[layer], masked[layer])


@both_ways
def test_awd_lstm_is_the_public_code(build, golden, load_awd, awd_name):
    """Values and gradients, with AR and TAR, from the same weights."""
    vectors = golden("awd_forward")
    values = {
        "backbone.num_layers": 3,
        "backbone.units": 9,
        "backbone.last_units": 6,
        "head.tied": True,
        "regularizer.activation_regularization.alpha": 2,
        "regularizer.temporal_activation_regularization.beta": 1,
    }
    assembly = build(values, vocabulary=21, dtype=torch.float32)
    model = assembly.model
    load_awd(model, vectors)
    state = tuple(vectors[f"in.{kind}{layer}"] for layer in range(3) for kind in "hc")
    passed = model(vectors["ids"], state)
    close = {"rtol": 1e-5, "atol": 1e-6}
    for layer in range(3):
        torch.testing.assert_close(passed.features.raw[layer], vectors[f"out.raw{layer}"], **close)
        torch.testing.assert_close(passed.state[2 * layer], vectors[f"out.h{layer}"], **close)
        torch.testing.assert_close(passed.state[2 * layer + 1], vectors[f"out.c{layer}"], **close)
    ce = assembly.loss(passed, vectors["targets"], model.embedding.weight, CHANCE) / 28
    penalties = {type(r).__name__: r.penalty(passed, model) for r in assembly.regularizers}
    torch.testing.assert_close(ce, vectors["ce"], **close)
    torch.testing.assert_close(penalties["ActivationRegularization"], vectors["ar"], **close)
    torch.testing.assert_close(
        penalties["TemporalActivationRegularization"], vectors["tar"], **close
    )
    total = ce + sum(penalties.values())
    torch.testing.assert_close(total, vectors["total"], **close)
    embedded_TBE = passed.features.embedded_TBE
    embedded_TBE.retain_grad()
    total.backward()
    # The public code embeds with padding_idx = -1, so that the last word's vector is given no
    # gradient as an input. Ours is, and is put aside here.
    model.embedding.weight.grad[-1] -= embedded_TBE.grad[vectors["ids"] == 20].sum(0)
    for name, parameter in model.named_parameters():
        expected = vectors["grad." + awd_name(name)]
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-6)
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    torch.testing.assert_close(norm, vectors["grad_norm"], rtol=1e-5, atol=0)


# --- Masks on what the gates read ------------------------------------------------------------

RATES = {"input": 0.5, "hidden": 0.25, "recurrent": 0.3, "output": 0.5}
PLACE = "regularizer.variational_dropout"
SHARED = {f"{PLACE}.{site}": rate for site, rate in RATES.items()}
GAL = {**SHARED, f"{PLACE}.gate_masks": "per_gate"}
INAN = {f"{PLACE}.{site}": 0.5 for site in RATES} | {f"{PLACE}.tied": True}


def keep(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return 1.5 * (torch.rand(shape, generator=generator) < 2 / 3).double()


def masks_of(kind):
    """The masks by the purpose they are drawn for: embedding 6, layers of 7 and 5, two rows."""
    if kind == "per_gate":
        return {
            "gates/input": keep(1, 4, 2, 6), "recurrent/1": keep(2, 4, 2, 7),
            "gates/hidden/1": keep(3, 4, 2, 7), "recurrent/2": keep(4, 4, 2, 5),
            "output": keep(5, 1, 2, 5),
        }  # fmt: skip
    masks = {"input": keep(1, 1, 2, 6), "hidden/1": keep(3, 1, 2, 7), "output": keep(5, 1, 2, 5)}
    own = {"recurrent/1": keep(2, 1, 2, 7), "recurrent/2": keep(4, 1, 2, 5)}
    return masks if kind == "tied" else masks | own


def masked_by_hand(kind, masks, x_TBE, state, weights):
    """Two layers, gate by gate: the papers' equations, and what the softmax reads."""
    if kind == "per_gate":
        read = [masks["gates/input"], masks["gates/hidden/1"]]
        state_masks = [masks["recurrent/1"], masks["recurrent/2"]]
    else:
        names = ("hidden/1", "output") if kind == "tied" else ("recurrent/1", "recurrent/2")
        read = [masks["input"].expand(4, -1, -1), masks["hidden/1"].expand(4, -1, -1)]
        state_masks = [masks[name].expand(4, -1, -1) for name in names]
    h, c = [state[0][0], state[2][0]], [state[1][0], state[3][0]]
    outputs = []
    for x in x_TBE:
        for layer in range(2):
            w_ih, w_hh, b_ih, b_hh = weights[layer]
            units = c[layer].shape[1]
            gate = []
            for k in range(4):
                rows = slice(k * units, (k + 1) * units)
                from_input = torch.einsum("bi,hi->bh", read[layer][k] * x, w_ih[rows])
                from_state = torch.einsum("bi,hi->bh", state_masks[layer][k] * h[layer], w_hh[rows])
                gate.append(from_input + from_state + b_ih[rows] + b_hh[rows])
            i, f, g, o = gate
            c[layer] = c[layer] / (1 + (-f).exp()) + g.tanh() / (1 + (-i).exp())
            h[layer] = c[layer].tanh() / (1 + (-o).exp())
            x = h[layer]
        outputs.append(masks["output"][0] * x)
    return torch.stack(outputs), (h[0][None], c[0][None], h[1][None], c[1][None])


@pytest.mark.parametrize(
    ("kind", "values"), [("per_gate", GAL), ("shared", SHARED), ("tied", INAN)]
)
def test_masks_on_what_the_gates_read_are_the_equations(build, fixed_chance, kind, values):
    assembly = build({**values, "backbone.units": [7, 5]})
    model, masks = assembly.model, masks_of(kind)
    chance = fixed_chance({f"variational_dropout/{site}": mask for site, mask in masks.items()})
    ids = torch.randint(0, 23, (9, 2), generator=torch.Generator().manual_seed(1))
    state = tuple(torch.randn_like(s).requires_grad_() for s in model.initial_state(2))
    passed = model(ids, state, Masks(assembly.regularizers, chance))
    assert chance.requested.keys() == chance.masks.keys()
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weights = [[getattr(model.backbone, f"{k}_l{layer}") for k in kinds] for layer in range(2)]
    embedded_TBE = model.embedding.weight[ids]
    output, after = masked_by_hand(kind, masks, embedded_TBE, state, weights)
    torch.testing.assert_close(passed.features.output_TBH, output, rtol=0, atol=1e-9)
    for result, reference in zip(passed.state, after, strict=True):
        torch.testing.assert_close(result, reference, rtol=0, atol=1e-9)
    leaves = [model.embedding.weight, *model.backbone.parameters(), *state]
    actual = gradients((passed.features.output_TBH, *passed.state), leaves)
    for result, reference in zip(actual, gradients((output, *after), leaves), strict=True):
        torch.testing.assert_close(result, reference, rtol=0, atol=1e-9)


LARGE = (5, 33, 41, 53)  # steps, rows, inputs, units
SHARES = [(1, 1), (4, 4), (4, None), (None, 1), (None, 4), (None, None)]  # masks on input and state


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("sizes", "shares"),
    [
        *((LARGE, shares) for shares in SHARES),
        ((7, 3, 5, 9), (4, 1)),
        ((2, 4, 3, 2), (1, 4)),
        ((1, 1, 1, 1), (None, None)),
    ],
)
def test_a_window_by_kernels_is_that_of_float64(sizes, shares, near):
    num_steps, rows, inputs, units = sizes
    generator = torch.Generator().manual_seed(2)

    def draw(*shape):
        drawn = torch.randn(shape, generator=generator)
        return drawn.mul_(shape[-1] ** -0.5).requires_grad_()

    leaves = (
        draw(num_steps, rows, inputs), draw(rows, units), draw(rows, units),
        draw(4 * units, inputs), draw(4 * units, units), draw(4 * units),
    )  # fmt: skip
    widths = zip(shares, (inputs, units), strict=True)
    masks = [None if n is None else keep(n, n, rows, width) for n, width in widths]
    actual = []
    for dtype in (torch.float32, torch.float64):
        given = [None if x is None else x.to(dtype) for x in (*leaves, *masks)]
        outputs = lstm_steps(*given)
        actual.append((*outputs, *gradients(outputs, leaves)))
    near(*actual, 1e-5)
