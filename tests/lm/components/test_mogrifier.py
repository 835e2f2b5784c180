"""The Mogrifier against its equations, its plain form and the LSTM; test_dual.py has its sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.config.streams import Streams
from ablate.lm.components.backbone.mogrifier import window
from ablate.lm.model.masks import OFF, Chance, Masks
from ablate.lm.model.regularizer import Regularizer
from tests.support.mogrifier_cells import cast, parameters_of, random_cell

MOGRIFIER = {"backbone": "mogrifier", "backbone.initial_range": 0.8}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Locked(Regularizer):
    """A random mask on each layer's recurrent state, the same at every request."""

    def locked(self, site, shape, like, chance):
        assert site in ("recurrent/1", "recurrent/2")
        generator = torch.Generator().manual_seed(int(site[-1]))
        return torch.randint(0, 2, shape, generator=generator).to(like) * 2


def layer_by_hand(named, layer, config, x, h, c, mask):
    """A window of one layer, a row of words at a time."""
    outputs = []
    bias = named[f"bias_ih_l{layer}"] + named.get(f"bias_hh_l{layer}", 0)
    for x_BI in x:
        now = {"x": x_BI, "h": h * mask}
        for number in range(1, config.rounds + 1):
            target, read = ("x", "h") if number % 2 else ("h", "x")
            matrix = named[f"mogrifier_left_r{number}_l{layer}"]
            if config.rank:
                matrix = matrix @ named[f"mogrifier_right_r{number}_l{layer}"]
            pre = now[read] @ matrix.T + named[f"mogrifier_bias_r{number}_l{layer}"]
            now[target] = 2 * sigmoid(pre) * now[target]
        pre = now["x"] @ named[f"weight_ih_l{layer}"].T + now["h"] @ named[f"weight_hh_l{layer}"].T
        i, f, g, o = np.split(pre + bias, 4, axis=-1)
        i, f = sigmoid(i), sigmoid(f)
        c = f * c + (np.minimum(i, 1 - f) if config.capped else i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs), h, c


@pytest.mark.parametrize(
    ("rounds", "rank", "capped", "masked"),
    [
        (0, 0, False, True),
        (1, 0, True, False),
        (2, 2, False, False),
        (5, 0, True, True),
        (5, 3, False, True),
        (6, 2, True, False),
    ],
)
def test_layers_are_the_equations(build, rounds, rank, capped, masked):
    values = {"backbone.rounds": rounds, "backbone.rank": rank, "backbone.capped": capped}
    backbone = build({**MOGRIFIER, **values, "backbone.units": [7, 4]}).model.backbone
    with torch.no_grad():
        for name, parameter in backbone.named_parameters():
            if name.startswith("mogrifier_bias"):
                parameter.uniform_(-1, 1)
    x = torch.randn(5, 3, 6).double()
    state = tuple(torch.randn_like(s) for s in backbone.initial_state(3))
    masks = Masks((Locked(),), Chance(Streams(1), 0)) if masked else OFF
    raw, _, after = backbone(x, None, state, masks)
    named = {name: p.detach().numpy() for name, p in backbone.named_parameters()}
    expected = x.numpy()
    for layer in range(2):
        h, c = (s[0].numpy() for s in state[2 * layer : 2 * layer + 2])
        locked_mask = Locked().locked(f"recurrent/{layer + 1}", h.shape, raw[0], None).numpy()
        mask = locked_mask if masked else 1
        expected, h, c = layer_by_hand(named, layer, backbone.config, expected, h, c, mask)
        for result, reference in ((raw[layer], expected), (after[2 * layer], h[None])):
            np.testing.assert_allclose(result.detach(), reference, rtol=0, atol=1e-12)
        np.testing.assert_allclose(after[2 * layer + 1][0].detach(), c, rtol=0, atol=1e-12)


LARGE = (3, 23, 41, 53)  # steps, rows, inputs, units
WINDOWS = [  # of those, rounds, rank, masked, capped
    (LARGE, 0, 0, False, True),
    (LARGE, 1, 0, True, False),
    (LARGE, 4, 2, True, True),
    (LARGE, 5, 0, False, False),
    ((5, 3, 6, 7), 6, 3, True, False),
    ((6, 5, 2, 11), 3, 1, False, True),
    ((2, 1, 9, 3), 2, 0, True, True),
    ((1, 1, 1, 1), 1, 2, False, False),
]


@pytest.mark.kernels
@pytest.mark.parametrize(("sizes", "rounds", "rank", "masked", "capped"), WINDOWS)
def test_a_window_by_kernels_is_that_of_float64(sizes, rounds, rank, masked, capped, near):
    """Values and every gradient, also those by the last c."""
    T, B, num_in, units = sizes
    generator = torch.Generator().manual_seed(sum(sizes))

    def draw(*shape):
        drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return drawn.mul_(shape[-1] ** -0.5).requires_grad_()  # or float32 alone would be far off

    cell = random_cell(draw, sizes, rounds, rank, masked=masked, capped=capped)
    inputs = [draw(T, B, num_in), draw(B, units), draw(B, units)]
    mask = draw(B, units).detach() if masked else None
    goal = draw(T, B, units).detach()
    actual = []
    for kind in (torch.float32, torch.float64):
        own = [None if x is None else x.to(kind) for x in (*inputs, mask)]
        outputs, c = window(*own, cast(cell, kind))
        loss = (outputs * goal.to(kind)).sum() + c.square().sum()
        gradients = torch.autograd.grad(loss, [*inputs, *parameters_of(cell)])
        actual.append((outputs, c, *gradients))
    near(*actual, 1e-5)


@pytest.mark.parametrize("biases", [1, 2])
def test_without_rounds_it_is_the_lstm(build, biases):
    """Bit for bit: the same initial draws, outputs and gradients."""
    values = {"backbone.biases": biases, "backbone.last_units": 4}
    ids, actual = torch.randint(0, 23, (5, 3)), []
    for chosen in ({"backbone": "lstm"}, {"backbone": "mogrifier", "backbone.rounds": 0}):
        model = build({**values, **chosen}, dtype=torch.float32).model
        passed = model(ids, model.initial_state(3))
        named = dict(model.backbone.named_parameters())
        gradients = torch.autograd.grad(passed.features.raw[1].square().sum(), [*named.values()])
        actual.append((*passed.features.raw, *passed.state, *named.values(), *gradients))
    assert all(torch.equal(a, b) for a, b in zip(*actual, strict=True))


@pytest.mark.parametrize(("rank", "widths"), [(0, (7, 6)), (2, (2, 2))])
def test_its_dropout_is_held_and_acts_between_the_matrices(build, fixed_chance, rank, widths):
    """A mask on what the last matrix reads is one on its columns, where rows of it agree."""
    values = {"backbone.num_layers": 1, "backbone.rounds": 2, "backbone.rank": rank}
    backbone = build({**MOGRIFIER, **values, "backbone.dropout": 0.25}).model.backbone
    state_masks = [torch.randint(0, 2, (1, 1, w)).double() * 3 for w in widths]
    names = [f"mask/mogrifier/r{number}_l0" for number in (1, 2)]
    chance = fixed_chance(
        {
            n.removeprefix("mask/"): k.expand(1, 3, -1)
            for n, k in zip(names, state_masks, strict=True)
        }
    )
    x, state = torch.randn(4, 3, 6).double(), backbone.initial_state(3)
    masked, _, _ = backbone(x, None, state, Masks((), chance))
    assert [requested for _, requested in sorted(chance.requested.items())] == [
        ((1, 3, width), 0.25) for width in widths
    ]
    with torch.no_grad():
        for number, mask in enumerate(state_masks, 1):
            backbone.get_parameter(f"mogrifier_left_r{number}_l0").mul_(mask[0])
    torch.testing.assert_close(masked[0], backbone(x, None, state, OFF)[0][0])


def test_its_matrices_are_a_group_of_their_own(build):
    groups = build({**MOGRIFIER, "backbone.rank": 2, "backbone.rounds": 1}).model.groups()
    actual = {group: [name for name, _ in members] for group, members in groups.items()}
    suffixes = ("left_r1_l0", "right_r1_l0", "left_r1_l1", "right_r1_l1")
    assert actual["mogrifier"] == [f"backbone.mogrifier_{suffix}" for suffix in suffixes]
    assert actual["recurrent"] == ["backbone.weight_hh_l0", "backbone.weight_hh_l1"]
    assert "backbone.mogrifier_bias_r1_l0" in actual["bias"]
