"""Mamba-2: SSD against attention's matrix form and a loop, a block by hand, its first values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from ablate.config.resolve import resolve
from ablate.errors import CombinationError
from ablate.lm.model.fast.ssd import ssd, ssd_plain
from ablate.lm.model.masks import OFF
from tests.support.by_hand import numbers, rms_norm, silu

MAMBA2 = {
    "backbone": "mamba2",
    "backbone.units": 4,
    "backbone.heads": 4,
    "backbone.groups": 2,
    "backbone.state": 3,
}
B, G, R, P, N = 2, 2, 3, 2, 4


def window(num_steps, sizes=(B, G, R, P, N)):
    """x, d, B, C, a and a state before, in the order of `ssd`."""
    rows, groups, heads, units, state = sizes
    drawn = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(shape, generator=drawn, dtype=torch.float64)

    shared = (num_steps, rows, groups, state)
    given = [
        draw(num_steps, rows, groups, heads, units),
        F.softplus(draw(num_steps, rows, groups, heads)),
        draw(*shared),
        draw(*shared),
        -draw(groups, heads).exp(),
        draw(rows, groups, heads, units, state),
    ]
    return [x.requires_grad_() for x in given]


@pytest.mark.parametrize(("num_steps", "chunk"), [(1, 64), (2, 1), (7, 3), (65, 64)])
def test_chunks_are_the_recurrence(num_steps, chunk):
    """Outputs, the last state, and the gradients of all that is given."""
    given, results = window(num_steps), []
    for run in (lambda *given: ssd(*given, chunk=chunk), ssd_plain):
        y, after = run(*given)
        total = (y * torch.arange(y.numel()).view(y.shape).cos()).sum() + after.sin().sum()
        results.append((y, after, *torch.autograd.grad(total, given)))
    for ours, loop in zip(*results, strict=True):
        torch.testing.assert_close(ours, loop, rtol=1e-9, atol=1e-9)


def test_large_steps_forget_and_do_not_overflow():
    x, d, b, c, a, s = (each.detach().float() for each in window(64))
    d = torch.full_like(d, 50.0).requires_grad_()
    y, _ = ssd(x, d, b, c, a - 10, s)
    wanted = d[..., None] * (c * b).sum(-1)[..., None, None] * x  # of each step alone
    torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-3)
    assert torch.isfinite(torch.autograd.grad(y.sum(), d)[0]).all()


@pytest.mark.parametrize("decay", [1.0, 50.0])
def test_chunks_keep_as_many_digits_as_the_recurrence(decay):
    """In float32, also where a chunk decays by e^-3000, and the next step reads the last one."""
    single = [each.detach().float() for each in window(64)]
    single[4] = -decay * torch.arange(1, G * R + 1).view(G, R) / (G * R)
    exact, _ = ssd_plain(*(each.double() for each in single))
    chunks, loop = ((run(*single)[0] - exact).norm() / exact.norm() for run in (ssd, ssd_plain))
    assert chunks < 3 * loop < 6e-7


def block_by_hand(u, read, s, w):
    """One word of one row: 4 units, 8 of x and z in 4 heads of 2, in 2 groups, each state 3."""
    z, new, step = np.split(w["weight_in"] @ rms_norm(u, w["norm.scale"]), [8, 8 + 20])
    read = [*read, new]
    kernel = w.get("convolution.weight")
    if kernel is not None:
        new = sum(kernel[:, 0, k] * read[-1 - k] for k in range(4)) + w["convolution.bias"]
    x, b, c = np.split(silu(new), [8, 14])
    y = np.empty(8)
    for head in range(4):
        own, shared = slice(2 * head, 2 * head + 2), slice(3 * (head // 2), 3 * (head // 2) + 3)
        d = np.log1p(np.exp(step[head] + w["bias_step"][head]))
        decay = np.exp(-np.exp(w["log_decay"][head]) * d)
        s[head] = decay * s[head] + d * np.outer(x[own], b[shared])
        y[own] = s[head] @ c[shared] + w["skip"][head] * x[own]
    gated, gain = (y * silu(z)).reshape(2, 4), w["inner_norm.scale"].reshape(2, 4)
    y = np.concatenate([rms_norm(*each) for each in zip(gated, gain, strict=True)])
    return u + w["weight_out"] @ y, read, s


@pytest.mark.parametrize("convolution", [1, 4])
def test_layers_are_a_loop(build, convolution):
    backbone = build({**MAMBA2, "backbone.convolution": convolution}).model.backbone
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)  # gains that are not 1
    inputs = torch.randn(7, 2, 6).double()
    before = tuple(torch.randn_like(s) for s in backbone.initial_state(2))
    raw, _, after = backbone(inputs, torch.zeros(7, 2), before, OFF)
    for row in range(2):
        x = inputs[:, row].numpy() @ backbone.stack.weight_ih.detach().numpy().T
        for layer, block in enumerate(backbone.stack.blocks):
            read = [*before[2 * layer][:, row].numpy()]
            s, outputs = before[2 * layer + 1][:, row].numpy().copy(), []
            for u in x:
                out, read, s = block_by_hand(u, read, s, numbers(block))
                outputs.append(out)
            x = np.stack(outputs)
            gain = numbers(backbone.stack)["last_norm.scale"]
            wanted = rms_norm(x, gain) if layer == 1 else x
            np.testing.assert_allclose(raw[layer][:, row].detach(), wanted, rtol=0, atol=1e-9)
            np.testing.assert_allclose(after[2 * layer + 1][:, row].detach(), s, rtol=0, atol=1e-9)
            kept = after[2 * layer][:, row].detach().numpy()
            assert kept.shape == (convolution - 1, 20)
            if len(kept):
                np.testing.assert_allclose(kept, np.stack(read[-3:]), rtol=0, atol=1e-9)


def test_results_of_one_group_keep_their_ids():
    """The norm of several groups was mended, and that of one group is as it was."""
    one, two = (
        resolve({**MAMBA2, "backbone.groups": groups, "head": "softmax", "optimizer": "sgd"})
        for groups in (1, 2)
    )
    assert [each.identity["backbone"]["version"] for each in (one, two)] == [1, 2]
    assert "backbone version" not in one.extras and two.extras["backbone version"] == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"backbone.heads": 6}, r"heads = 6 do not divide the 8 units of x .*= 4 times .*= 2"),
        ({"backbone.groups": 3}, r"groups = 3 do not divide backbone.heads = 4"),
        ({"backbone.smallest_step": 0.2}, r"smallest_step = 0.2 is above .*largest_step = 0.1"),
    ],
)
def test_what_does_not_fit_is_refused(build, values, message):
    with pytest.raises(CombinationError, match=message):
        build({**MAMBA2, **values})
