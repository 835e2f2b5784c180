"""Micro-steps of the highway layer of `fast/rhn_window.py`: one kernel between torch's products.

It computes all that a micro-step does to its units: both gates, the state, and the state under each
mask of the next micro-step's product. Backward it sums what a later micro-step gives to the state,
each share under its mask, and computes the slopes of the gates. So a micro-step takes S products
and one kernel, in both directions.

Shape suffixes as in `fast/rhn_window.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from ablate.model.triton.functions import tanh, with_shares
from ablate.model.triton.library import launch

BLOCK = 256
WARPS = 4


def window(
    first_TBD: Tensor,
    mask_SBH: Tensor | None,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    states: Tensor,
    read_SNBH: Tensor,
    gates_LTBD: Tensor,
) -> None:
    """Run the micro-steps: fill in every state except the first, the masked states, and the gates.

    Without masks, `read_SNBH` is a view of the states.
    """
    depth, shares, apart = len(weights), len(read_SNBH), read_SNBH.stride(0)
    if mask_SBH is not None:
        mask_SBH = mask_SBH.contiguous()
        torch.mul(states[0], mask_SBH, out=read_SNBH[:, 0])
    turned = [[weight.t() for weight in whole.chunk(shares)] for whole in weights]
    reads = [*read_SNBH.unbind(1), None]  # the last state's is the next window's to compute
    for number in range(len(states) - 1):
        step, level = divmod(number, depth)
        given, gates_BD = biases[level - 1] if level else first_TBD[step], gates_LTBD[level, step]
        cuts = (each.chunk(shares, -1) for each in (given, gates_BD))
        for add, out, read, weight in zip(*cuts, reads[number], turned[level], strict=True):
            torch.addmm(add, read, weight, out=out)
        following = None if mask_SBH is None else reads[number + 1]
        masked = (None, None) if following is None else (mask_SBH, following[0])
        tensors = (gates_BD, states[number], states[number + 1], *masked)
        _launch(_forward, states[0], *tensors, shares, apart)


def window_back(
    d_out_TBH: Tensor,
    mask_SBH: Tensor | None,
    weights: Sequence[Tensor],
    states: Tensor,
    gates_LTBD: Tensor,
    d_BH: Tensor,
    d_pre_LTBD: Tensor,
) -> None:
    """Run the micro-steps backwards: `d_BH` becomes the gradient of the state before the window."""
    depth, shares = len(weights), 1 if mask_SBH is None else len(mask_SBH)
    mask_SBH = None if mask_SBH is None else mask_SBH.contiguous()
    d_out_TBH, through_SBH = d_out_TBH.contiguous(), d_BH.new_zeros(shares, *d_BH.shape)
    cut = [whole.chunk(shares) for whole in weights]
    for number in reversed(range(len(states) - 1)):
        step, level = divmod(number, depth)
        outer_BH = d_out_TBH[step] if level == depth - 1 else None
        d_pre_BD = d_pre_LTBD[level, step]
        given = (gates_LTBD[level, step], states[number], states[number + 1], outer_BH)
        _launch(_backward, d_BH, *given, mask_SBH, through_SBH, d_BH, d_pre_BD, shares)
        parts = zip(d_pre_BD.chunk(shares, -1), cut[level], through_SBH, strict=True)
        for d_pre, weight, through_BH in parts:
            torch.mm(d_pre, weight, out=through_BH)
    d_BH.add_((through_SBH if mask_SBH is None else through_SBH * mask_SBH).sum(0))


def _launch(kernel, like_BH: Tensor, *others: Tensor | int | None) -> None:
    """Start a kernel over the units of all rows."""
    units, width = like_BH.numel(), like_BH.shape[-1]
    grid = (triton.cdiv(units, BLOCK),)
    launch(kernel, grid, *others, units, width, BLOCK=BLOCK, num_warps=WARPS)


@triton.jit
def _forward(
    gates, s_before, s_after, masks, reads, shares, apart, units, width,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < units
    gate = gates + at // width * 2 * width + at % width
    h = tanh(tl.load(gate, mask=inside, other=0.0))
    t = tl.sigmoid(tl.load(gate + width, mask=inside, other=0.0))
    s = tl.load(s_before + at, mask=inside, other=0.0)
    s += t * (h - s)
    tl.store(gate, h, mask=inside)
    tl.store(gate + width, t, mask=inside)
    tl.store(s_after + at, s, mask=inside)
    if masks is not None:
        kept, read = masks + at, reads + at
        for _ in range(shares):
            tl.store(read, s * tl.load(kept, mask=inside, other=0.0), mask=inside)
            kept += units
            read += apart  # from one share of a state to the next; a window lies between


@triton.jit
def _backward(
    gates, s_before, s_after, outer, masks, through, d_s, d_gates, shares, units, width,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < units
    d = tl.load(d_s + at, mask=inside, other=0.0)
    if outer is not None:
        d += tl.load(outer + at, mask=inside, other=0.0)
    d = with_shares(d, through, masks, at, shares, units, inside)
    first = at // width * 2 * width + at % width
    h = tl.load(gates + first, mask=inside, other=0.0)
    t = tl.load(gates + first + width, mask=inside, other=0.0)
    moved = tl.load(s_after + at, mask=inside, other=0.0)
    moved -= tl.load(s_before + at, mask=inside, other=0.0)
    tl.store(d_gates + first, d * t * (1 - h * h), mask=inside)
    tl.store(d_gates + first + width, d * moved * (1 - t), mask=inside)
    tl.store(d_s + at, d * (1 - t), mask=inside)
