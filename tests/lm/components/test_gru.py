"""The GRU against an explicit loop, fused and under masks, and its size by hand."""

from __future__ import annotations

import pytest
import torch

from ablate.lm.model.masks import OFF, Masks
from tests.support.masked import gradients

PLACE = "regularizer.variational_dropout"
SHARED = {f"{PLACE}.{site}": 0.4 for site in ("input", "hidden", "recurrent", "output")}
PER_GATE = {**SHARED, f"{PLACE}.gate_masks": "per_gate"}
TIED = {**SHARED, f"{PLACE}.tied": True}
CLOSE = {"rtol": 0, "atol": 1e-9}


def sigmoid(x):
    return 1 / (1 + (-x).exp())


def by_hand(x_TBI, h, parameters, read, on_state):
    """One layer, gate by gate; `read` and `on_state` are masks [3, B, .] of input and state."""
    w_ih, w_hh = (p.chunk(3) for p in parameters[:2])
    b_ih = parameters[2].chunk(3)
    b_hh = parameters[3].chunk(3) if len(parameters) == 4 else (0, 0, 0)
    outputs = []
    for x in x_TBI:
        from_input = [torch.einsum("bi,hi->bh", read[k] * x, w_ih[k]) + b_ih[k] for k in range(3)]
        from_state = [
            torch.einsum("bi,hi->bh", on_state[k] * h, w_hh[k]) + b_hh[k] for k in range(3)
        ]
        r, z = sigmoid(from_input[0] + from_state[0]), sigmoid(from_input[1] + from_state[1])
        n = (from_input[2] + r * from_state[2]).tanh()
        h = n - z * n + z * h
        outputs.append(h)
    return torch.stack(outputs)


def parameters_of(backbone, layer):
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    named = dict(backbone.named_parameters())
    return [named[f"{kind}_l{layer}"] for kind in kinds if f"{kind}_l{layer}" in named]


@pytest.mark.parametrize("biases", [1, 2])
def test_layers_are_the_equations(build, biases):
    values = {"backbone": "gru", "backbone.units": [5, 4], "backbone.biases": biases}
    backbone = build(values).model.backbone
    x = torch.randn(6, 2, 6).double()
    state = tuple(torch.randn_like(s) for s in backbone.initial_state(2))
    raw, masked, after = backbone(x, torch.zeros(6, 2), state, OFF)
    for layer in range(2):
        parameters = parameters_of(backbone, layer)
        assert len(parameters) == 2 + biases
        x = by_hand(x, state[layer][0], parameters, (1, 1, 1), (1, 1, 1))
        torch.testing.assert_close(raw[layer], x, **CLOSE)
        torch.testing.assert_close(after[layer][0], x[-1], **CLOSE)
        assert torch.equal(raw[layer], masked[layer])


def keep(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return 1.5 * (torch.rand(shape, generator=generator) < 2 / 3).double()


@pytest.mark.parametrize(("values", "biases"), [(PER_GATE, 2), (SHARED, 1), (TIED, 2)])
def test_masks_on_what_the_gates_read_are_the_equations(build, fixed_chance, values, biases):
    chosen = {"backbone": "gru", "backbone.units": [7, 5], "backbone.biases": biases}
    assembly = build({**values, **chosen})
    model, shares = assembly.model, 3 if values is PER_GATE else 1
    prefix = "gates/" if values is PER_GATE else ""
    masks = {
        f"{prefix}input": keep(1, shares, 2, 6), f"{prefix}hidden/1": keep(2, shares, 2, 7),
        "recurrent/1": keep(3, shares, 2, 7), "recurrent/2": keep(4, shares, 2, 5),
        "output": keep(5, 1, 2, 5),
    }  # fmt: skip
    if values is TIED:
        masks |= {"recurrent/1": masks["hidden/1"], "recurrent/2": masks["output"]}
    chance = fixed_chance({f"variational_dropout/{site}": mask for site, mask in masks.items()})
    ids = torch.randint(0, 23, (9, 2), generator=torch.Generator().manual_seed(1))
    state = tuple(torch.randn_like(s).requires_grad_() for s in model.initial_state(2))
    passed = model(ids, state, Masks(assembly.regularizers, chance))
    x = model.embedding.weight[ids]
    after = []
    for layer, site in enumerate(("input", "hidden/1")):
        read = masks[f"{prefix}{site}"].expand(3, -1, -1)
        on_state = masks[f"recurrent/{layer + 1}"].expand(3, -1, -1)
        x = by_hand(x, state[layer][0], parameters_of(model.backbone, layer), read, on_state)
        after.append(x[-1:])
    expected = (x * masks["output"], *after)
    actual = (passed.features.output_TBH, *passed.state)
    leaves = [model.embedding.weight, *model.backbone.parameters(), *state]
    pairs = zip(
        (*actual, *gradients(actual, leaves)),
        (*expected, *gradients(expected, leaves)),
        strict=True,
    )
    for result, reference in pairs:
        torch.testing.assert_close(result, reference, **CLOSE)
