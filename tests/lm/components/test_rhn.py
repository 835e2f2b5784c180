"""The recurrent highway network against its equations, its plain form, and the published sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.lm.components.backbone.rhn import window
from ablate.lm.model.masks import OFF, Masks

RHN = {"backbone": "rhn", "backbone.depth": 3, "backbone.initial_range": 0.8}


PLACE = "regularizer.variational_dropout"
SHARED = {f"{PLACE}.{site}": 0.25 for site in ("input", "recurrent", "output")}
PER_GATE = {**SHARED, f"{PLACE}.gate_masks": "per_gate"}


def by_hand(backbone, x, s, on_x, on_s):
    """Every state of a window, each gate by its own matrices and its own masks, h's and t's."""
    named = {name: p.detach().numpy() for name, p in backbone.named_parameters()}
    units, outputs = s.shape[-1], []

    def pre(kind, level, x_BE, s):
        rows = slice(0, units) if kind == 0 else slice(units, None)
        read = s * on_s[kind]
        total = read @ named[f"weight_hh_{level}"][rows].T + named[f"bias_{level}"][rows]
        if level == 1:
            total = total + (x_BE * on_x[kind]) @ named["weight_ih"][rows].T
        return total

    for x_BE in x:
        for level in range(1, backbone.depth + 1):
            h = np.tanh(pre(0, level, x_BE, s))
            t = 1 / (1 + np.exp(-pre(1, level, x_BE, s)))
            s = h * t + s * (1 - t)
        outputs.append(s)
    return np.stack(outputs)


@pytest.mark.parametrize("depth", [1, 4])
def test_it_is_the_equations(build, depth):
    backbone = build({**RHN, "backbone.depth": depth}).model.backbone
    x, s = torch.randn(5, 3, 6).double(), torch.randn(1, 3, 7).double()
    raw, after_masks, state = backbone(x, torch.zeros(5, 3), (s,), OFF)
    whole = np.ones((2, 1, 1))
    expected = by_hand(backbone, x.numpy(), s[0].numpy(), whole, whole)
    np.testing.assert_allclose(raw[0].detach(), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(state[0][0].detach(), expected[-1], rtol=0, atol=1e-12)
    assert torch.equal(raw[0], after_masks[0])


def keep(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return 1.5 * (torch.rand(shape, generator=generator) < 2 / 3).double()


@pytest.mark.parametrize(("values", "num_masks", "depth"), [(SHARED, 1, 4), (PER_GATE, 2, 3)])
def test_masks_on_what_is_read_are_the_equations(build, fixed_chance, values, num_masks, depth):
    """The first mask of a pair is h's, the second t's; the s that is carried over has none."""
    assembly = build({**RHN, **values, "backbone.depth": depth})
    model = assembly.model
    masks = {
        "gates/input" if num_masks == 2 else "input": keep(1, num_masks, 3, 6),
        "recurrent/1": keep(2, num_masks, 3, 7),
        "output": keep(3, 1, 3, 7),
    }
    on_x, on_s = (mask.expand(2, -1, -1).numpy() for mask in list(masks.values())[:2])
    chance = fixed_chance({f"variational_dropout/{site}": mask for site, mask in masks.items()})
    ids, s = torch.randint(0, 23, (5, 3)), torch.randn(1, 3, 7).double()
    passed = model(ids, (s,), Masks(assembly.regularizers, chance))
    assert chance.requested.keys() == chance.masks.keys()
    x = model.embedding.weight[ids].detach().numpy()
    expected = by_hand(model.backbone, x, s[0].numpy(), on_x, on_s)
    np.testing.assert_allclose(passed.features.raw[0].detach(), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(passed.state[0][0].detach(), expected[-1], rtol=0, atol=1e-12)


def drawing(shape):
    """Leaves for a window of the shape [T, B, E, H, depth], and a function that draws more."""
    T, B, E, H, depth = shape
    generator = torch.Generator().manual_seed(sum(shape))

    def draw(*sizes):
        drawn = torch.randn(*sizes, generator=generator, dtype=torch.float64)
        return drawn.div_(2).requires_grad_()

    inputs = [draw(T, B, E), draw(B, H), draw(2 * H, E)]
    weights, biases = ([draw(2 * H, *s) for _ in range(depth)] for s in ((H,), ()))
    return draw, inputs, weights, biases


LARGE = (3, 23, 9, 53, 2)  # steps, rows, inputs, units, depth


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("shape", "num_masks"),
    [
        *((LARGE, number) for number in (0, 1, 2)),
        ((5, 3, 6, 7, 3), 1),
        ((7, 5, 2, 11, 6), 2),
        ((1, 1, 1, 1, 1), 0),
    ],
)
def test_a_window_by_kernels_is_that_of_float64(shape, num_masks, near):
    """Value and every gradient, also where only the last state counts."""
    T, B, E, H, _ = shape
    draw, inputs, weights, biases = drawing(shape)
    x, s, weight_ih = inputs
    on_x, on_s = (draw(num_masks, B, n).detach() if num_masks else None for n in (E, H))
    target = draw(T, B, H).detach()
    actual = []
    for kind in (torch.float32, torch.float64):

        def cast(x, kind=kind):
            return None if x is None else x.to(kind)

        own = (cast(x), cast(s), cast(on_x), cast(on_s), cast(weight_ih))
        states = window(*own, list(map(cast, weights)), list(map(cast, biases)))
        loss = (states * target.to(kind)).sum() + states[-1].square().sum()
        actual.append((states, *torch.autograd.grad(loss, [*inputs, *weights, *biases])))
    near(*actual, 1e-5)
