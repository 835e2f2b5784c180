"""The recurrent highway network against its equations, its plain twin, and the published sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.assemble import count_parameters
from ablate.components.backbone.rhn import plain_window, window
from ablate.components.regularizer import OFF, Chance, Masks, Regularizer
from ablate.config import resolve
from ablate.streams import Streams

RHN = {"backbone": "rhn", "backbone.depth": 3, "backbone.initial_range": 0.8}


class Held(Regularizer):
    """A given mask on the recurrent state."""

    def __init__(self, mask):
        self.given = mask

    def held(self, site, shape, like, chance):
        assert (site, tuple(shape)) == ("recurrent/1", tuple(self.given.shape))
        return self.given


def by_hand(backbone, x, s, mask):
    """Every state of a window, each gate by its own matrices."""
    named = {name: p.detach().numpy() for name, p in backbone.named_parameters()}
    units, outputs = s.shape[-1], []

    def pre(kind, level, x_BE, read):
        rows = slice(0, units) if kind == "h" else slice(units, None)
        total = read @ named[f"weight_hh_{level}"][rows].T + named[f"bias_{level}"][rows]
        return total + x_BE @ named["weight_ih"][rows].T if level == 1 else total

    for x_BE in x:
        for level in range(1, backbone.depth + 1):
            h = np.tanh(pre("h", level, x_BE, s * mask))
            t = 1 / (1 + np.exp(-pre("t", level, x_BE, s * mask)))
            s = h * t + s * (1 - t)
        outputs.append(s)
    return np.stack(outputs)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("depth", [1, 4])
def test_it_is_the_equations(build, depth, masked):
    backbone = build({**RHN, "backbone.depth": depth}).model.backbone
    x, s = torch.randn(5, 3, 6).double(), torch.randn(1, 3, 7).double()
    mask = torch.randint(0, 2, (1, 3, 7)).double() * 2
    masks = Masks((Held(mask),), Chance(Streams(1), 0)) if masked else OFF
    raw, after_masks, state = backbone(x, torch.zeros(5, 3), (s,), masks)
    whole = mask[0].numpy() if masked else np.ones((3, 7))
    expected = by_hand(backbone, x.numpy(), s[0].numpy(), whole)
    np.testing.assert_allclose(raw[0].detach(), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(state[0][0].detach(), expected[-1], rtol=0, atol=1e-12)
    assert torch.equal(raw[0], after_masks[0])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "shape", [(5, 3, 6, 7, 3), (1, 1, 1, 1, 1), (2, 1, 9, 3, 1), (7, 5, 2, 11, 6)]
)
def test_the_fast_window_is_the_plain_one(shape, masked):
    """Value and every gradient, also where only the last state counts."""
    T, B, E, H, depth = shape
    generator = torch.Generator().manual_seed(sum(shape))

    def draw(*sizes):
        return torch.randn(*sizes, generator=generator, dtype=torch.float64).requires_grad_()

    mask = draw(B, H).detach() if masked else None
    given = [draw(T, B, E), draw(B, H), draw(2 * H, E)]
    weights, biases = ([draw(2 * H, *s) for _ in range(depth)] for s in ((H,), ()))
    wanted = draw(T, B, H).detach()
    found = []
    for run in (window, plain_window):
        states = run(*given[:2], mask, given[2], weights, biases)
        loss = (states * wanted).sum() + states[-1].square().sum()
        found.append((states, *torch.autograd.grad(loss, [*given, *weights, *biases])))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_gradients_may_be_asked_for_twice(build):
    backbone = build(RHN).model.backbone
    raw, _, _ = backbone(torch.randn(4, 2, 6).double(), None, backbone.initial_state(2), OFF)
    parameters = list(backbone.parameters())
    first, second = (
        torch.autograd.grad(raw[0].square().sum(), parameters, retain_graph=True) for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_closed_gates_carry_the_state_on(build):
    backbone = build({**RHN, "backbone.transform_bias": -100}).model.backbone
    s = torch.randn(1, 2, 7).double()
    raw, _, _ = backbone(torch.randn(4, 2, 6).double(), None, (s,), OFF)
    torch.testing.assert_close(raw[0], s.expand(4, -1, -1))


def test_b_t_starts_at_a_constant_and_the_rest_in_a_range(build):
    values = {"backbone.units": 40, "backbone.initial_range": 0.04}
    for name, parameter in build({**RHN, **values}).model.backbone.named_parameters():
        drawn = parameter
        if name.startswith("bias"):
            assert (parameter[40:] == -2).all()
            drawn = parameter[:40]
        assert 0.8 * 0.04 < drawn.abs().max() <= 0.04


def test_recurrent_matrices_are_transformed_by_name(build):
    class Twice(Regularizer):
        def weight(self, name, weight, chance):
            names.append(name)
            return 2 * weight

    names = []
    backbone = build(RHN).model.backbone
    x, state = torch.randn(3, 2, 6).double(), (torch.randn(1, 2, 7).double(),)
    doubled, _, _ = backbone(x, None, state, Masks((Twice(),), Chance(Streams(1), 0)))
    with torch.no_grad():
        for name in names:
            backbone.get_parameter(name).mul_(2)
    assert names == ["weight_hh_1", "weight_hh_2", "weight_hh_3"]
    torch.testing.assert_close(doubled[0], backbone(x, None, state, OFF)[0][0])


@pytest.mark.parametrize(
    ("depth", "units", "tied", "millions"),
    [(8, 890, False, 32.08), (8, 890, True, 23.18), (10, 830, True, 23.48)],
)
def test_its_size_is_the_published_one(depth, units, tied, millions):
    """32.08 and 23.18 are 000's models; Zilly et al. print 23 for depth 10 with tied vectors."""
    values = {"backbone": "rhn", "backbone.depth": depth, "backbone.units": units}
    head = {"head": "softmax", "head.tied": tied, "optimizer": "sgd", "embedding.size": units}
    assert round(count_parameters(resolve({**values, **head}), 10_000) / 1e6, 2) == millions
