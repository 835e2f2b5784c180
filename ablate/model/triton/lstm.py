"""Steps of the masked LSTM of `fast/lstm_steps.py`: one kernel between torch's products.

It computes all that a step does to its units: gates, cell, output, and the output under each mask
of the next step's product. Backward it sums what the later step's products give to the output, each
under its mask, and computes the slopes of the gates. So a step takes S products and one kernel; it
does not keep the matrix on the chip from step to step, as FlashRNN's persistent kernels do.

Shape suffixes: D = 4H, the gates i, f, g, o side by side; S shares of the gates, one for each mask.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ablate.model.triton.functions import tanh, with_shares
from ablate.model.triton.library import launch

BLOCK = 256
WARPS = 4


def window(
    gates_TBD: Tensor,
    h_all: Tensor,
    c_all: Tensor,
    tanh_TBH: Tensor,
    weight_DH: Tensor,
    mask_SBH: Tensor | None,
) -> None:
    """Run the steps: fills in the states, and the gates, which hold the input's part."""
    mask_SBH = None if mask_SBH is None else mask_SBH.contiguous()
    turned = [weight.t() for weight in weight_DH.chunk(_num_shares(mask_SBH))]
    reads = h_all[:1] if mask_SBH is None else h_all[0] * mask_SBH
    for step, gates_BD in enumerate(gates_TBD):
        for a, read, weight in zip(gates_BD.chunk(len(turned), -1), reads, turned, strict=True):
            a.addmm_(read, weight)
        after = (c_all[step + 1], tanh_TBH[step], h_all[step + 1])
        masked = (None, None) if mask_SBH is None else (mask_SBH, reads)
        forward(len(turned), gates_BD, c_all[step], *after, *masked)
        reads = reads if mask_SBH is not None else h_all[step + 1 : step + 2]


def window_back(
    saved: tuple[Tensor, ...],
    dh_TBH: Tensor,
    dc_BH: Tensor,
    weight_DH: Tensor,
    mask_SBH: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the steps backwards: d h and d c before the window, and every d a."""
    gates_TBD, h_all, c_all, tanh_TBH = saved
    mask_SBH = None if mask_SBH is None else mask_SBH.contiguous()
    weights = weight_DH.chunk(_num_shares(mask_SBH))
    dh_TBH, dc_BH = dh_TBH.contiguous(), dc_BH.clone(memory_format=torch.contiguous_format)
    da_TBD, through_SBH = torch.empty_like(gates_TBD), dc_BH.new_zeros(len(weights), *dc_BH.shape)
    for step in reversed(range(len(dh_TBH))):
        states = (c_all[step], tanh_TBH[step], h_all[step + 1])
        slopes = (dh_TBH[step], through_SBH, dc_BH, da_TBD[step])
        backward(len(weights), gates_TBD[step], *states, mask_SBH, *slopes)
        shares = zip(da_TBD[step].chunk(len(weights), -1), weights, through_SBH, strict=True)
        for da, weight, through_BH in shares:
            torch.mm(da, weight, out=through_BH)
    dh_SBH = through_SBH if mask_SBH is None else through_SBH * mask_SBH
    return dh_SBH.sum(0), dc_BH, da_TBD


def _num_shares(mask_SBH: Tensor | None) -> int:
    return 1 if mask_SBH is None else len(mask_SBH)


def forward(
    shares: int, gates_BD: Tensor, c_BH: Tensor, *others: Tensor | None, capped: bool = False
) -> None:
    """The units of a step, given what the products left in the gates' place."""
    _launch(_forward, shares, gates_BD, c_BH, *others, capped=capped)


def backward(
    shares: int, gates_BD: Tensor, c_BH: Tensor, *others: Tensor | None, capped: bool = False
) -> None:
    """The slopes of a step's gates, given the gradients of its output and of its cell."""
    _launch(_backward, shares, gates_BD, c_BH, *others, capped=capped)


def _launch(
    kernel, shares: int, gates_BD: Tensor, c_BH: Tensor, *others: Tensor | None, capped: bool
) -> None:
    """Start a kernel over the units of all rows; `capped` as in `backbone/mogrifier.py`."""
    sizes = (shares, c_BH.numel(), c_BH.shape[-1])
    tensors, grid = (gates_BD, c_BH, *others), (triton.cdiv(c_BH.numel(), BLOCK),)
    launch(kernel, grid, *tensors, *sizes, CAPPED=capped, BLOCK=BLOCK, num_warps=WARPS)


@triton.jit
def _forward(
    gates, c_before, c_after, tanhs, h_after, masks, reads, shares, units, width,
    CAPPED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < units
    gate = gates + at // width * 4 * width + at % width
    i = tl.sigmoid(tl.load(gate, mask=inside, other=0.0))
    f = tl.sigmoid(tl.load(gate + width, mask=inside, other=0.0))
    g = tanh(tl.load(gate + 2 * width, mask=inside, other=0.0))
    o = tl.sigmoid(tl.load(gate + 3 * width, mask=inside, other=0.0))
    taken = tl.minimum(i, 1 - f) if CAPPED else i
    c = f * tl.load(c_before + at, mask=inside, other=0.0) + taken * g
    squashed = tanh(c)
    h = o * squashed
    tl.store(gate, i, mask=inside)
    tl.store(gate + width, f, mask=inside)
    tl.store(gate + 2 * width, g, mask=inside)
    tl.store(gate + 3 * width, o, mask=inside)
    tl.store(c_after + at, c, mask=inside)
    tl.store(tanhs + at, squashed, mask=inside)
    tl.store(h_after + at, h, mask=inside)
    if masks is not None:
        for share in range(shares):
            here = at + share * units
            kept = tl.load(masks + here, mask=inside, other=0.0)
            tl.store(reads + here, h * kept, mask=inside)


@triton.jit
def _backward(
    gates, c_before, tanhs, h_after, masks, outer, through, d_c, d_gates, shares, units, width,
    CAPPED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < units
    d_h = tl.load(outer + at, mask=inside, other=0.0)
    d_h = with_shares(d_h, through, masks, at, shares, units, inside)
    first = at // width * 4 * width + at % width
    i = tl.load(gates + first, mask=inside, other=0.0)
    f = tl.load(gates + first + width, mask=inside, other=0.0)
    g = tl.load(gates + first + 2 * width, mask=inside, other=0.0)
    o = tl.load(gates + first + 3 * width, mask=inside, other=0.0)
    h = tl.load(h_after + at, mask=inside, other=0.0)
    dc = tl.load(d_c + at, mask=inside, other=0.0)
    dc += d_h * (o - h * tl.load(tanhs + at, mask=inside, other=0.0))
    d_i, d_f = dc * g, dc * tl.load(c_before + at, mask=inside, other=0.0)
    taken = i
    if CAPPED:
        taken = tl.minimum(i, 1 - f)
        moved = tl.where(i > taken, d_i, 0.0)  # where i is capped, f decides in its place
        d_i -= moved
        d_f -= moved
    tl.store(d_gates + first, d_i * i * (1 - i), mask=inside)
    tl.store(d_gates + first + width, d_f * f * (1 - f), mask=inside)
    tl.store(d_gates + first + 2 * width, dc * taken * (1 - g * g), mask=inside)
    tl.store(d_gates + first + 3 * width, d_h * h * (1 - o), mask=inside)
    tl.store(d_c + at, dc * f, mask=inside)
