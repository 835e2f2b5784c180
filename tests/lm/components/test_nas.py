"""The searched cell: by hand, at the origin, under masks, and its published sizes."""

from __future__ import annotations

import math

import pytest
import torch

from ablate.config.streams import Streams
from ablate.lm.components.backbone.nas import NUM_PARTS, nas_step
from ablate.lm.model.masks import OFF, Chance, Masks

SITE = "regularizer.variational_dropout"
SHARED = {f"{SITE}.{name}": 0.4 for name in ("input", "hidden", "recurrent", "output")}
PER_GATE = {**SHARED, f"{SITE}.gate_masks": "per_gate"}


def by_hand(a, u, c):
    """One step of one unit, in Python's floats."""
    relu = lambda x: max(x, 0.0)  # noqa: E731
    sigmoid = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
    n = [
        sigmoid(a[0] + u[0]),
        relu(a[1] + u[1]),
        sigmoid(a[2] + u[2]),
        relu(a[3] * u[3]),
        math.tanh(a[4] + u[4]),
        sigmoid(a[5] + u[5]),
        math.tanh(a[6] + u[6]),
        sigmoid(a[7] + u[7]),
    ]
    p0, p1 = math.tanh(n[0] * n[1]), math.tanh(n[2] + n[3])
    p2, p3 = math.tanh(n[4] * n[5]), sigmoid(n[6] + n[7])
    c = math.tanh(p0 + c) * p1
    return math.tanh(c * math.tanh(p2 + p3)), c


def test_a_step_of_one_unit_is_as_by_hand():
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        a, u = torch.randn(2, NUM_PARTS, generator=generator, dtype=torch.float64)
        c = torch.randn((), generator=generator, dtype=torch.float64)
        m_new, c_new = nas_step(a[None], u[None], c.view(1, 1))
        expected = by_hand(a.tolist(), u.tolist(), c.item())
        assert (m_new.item(), c_new.item()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("masked", [{}, SHARED, PER_GATE], ids=["none", "shared", "per gate"])
def test_a_window_is_a_loop_over_its_steps(build, masked):
    """Two windows with the state carried are one, and the masks hold over a window."""
    assembly = build({"backbone": "nas", "backbone.units": [5, 4], **masked})
    backbone = assembly.model.backbone
    masks = Masks(assembly.regularizers, Chance(Streams(1), 0)) if masked else OFF
    x, ids = torch.randn(6, 2, 6).to(next(backbone.parameters())), torch.zeros(6, 2).long()
    state = tuple(torch.randn_like(s) for s in backbone.initial_state(2))
    raw, _, last = backbone(x, ids, state, masks)
    first, _, between = backbone(x[:4], ids[:4], state, masks)
    second, _, end = backbone(x[4:], ids[4:], between, masks)
    if not masked:
        torch.testing.assert_close(torch.cat((first[-1], second[-1])), raw[-1])
        torch.testing.assert_close(end, last)
    assert [tuple(output.shape) for output in raw] == [(6, 2, 5), (6, 2, 4)]
    assert torch.equal(last[0][0], raw[0][-1])
