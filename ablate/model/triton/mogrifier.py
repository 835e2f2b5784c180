"""Steps of the Mogrifier of `fast/mogrifier_window.py`: kernels between torch's products.

A round takes its products and one kernel: forward it computes the gate and the vector that it
scales, backward the slope of the gate and the gradient of that vector. The cell is the kernel of
`triton/lstm.py`, which also puts the state under its mask. A round's mask on what its matrix reads
is left to torch, which multiplies by it after a product and before another one.

Values are numbered as in `fast/mogrifier_window.py`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ablate.model.fast.mogrifier_trace import Cell, Slopes, Trace
from ablate.model.triton import lstm
from ablate.model.triton.library import launch

BLOCK = 256
WARPS = 4


def window(mask_BH: Tensor | None, cell: Cell, trace: Trace) -> None:
    """Run the steps and fill in the trace."""
    values, num_steps = trace.values, len(trace.cell_TBD)
    mask_1BH = None if mask_BH is None else mask_BH[None].contiguous()
    if mask_BH is not None:
        torch.mul(trace.outputs[0], mask_BH, out=values[1][0])
    for step in range(num_steps):
        for index, one in enumerate(cell.rounds):
            read = one.read(values[index + 1][step], _at(trace.between[index], step))
            gate = torch.addmm(one.bias, read, one.left.t(), out=trace.gates[index][step])
            _launch(_gate, gate, values[index][step], values[index + 2][step])
        after = (trace.cells[step + 1], trace.squashed_TBH[step], trace.outputs[step + 1])
        # The last output is under its mask in the next window.
        to_mask = mask_1BH is not None and step + 1 < num_steps
        masked = (mask_1BH, values[1][step + 1]) if to_mask else (None, None)
        gates_BD = trace.multiply(cell, step)
        lstm.forward(1, gates_BD, trace.cells[step], *after, *masked, capped=cell.capped)


def window_back(
    d_out_TBH: Tensor,
    d_c_BH: Tensor,
    mask_BH: Tensor | None,
    cell: Cell,
    trace: Trace,
    slopes: Slopes,
) -> Tensor:
    """Run the steps backwards: fill in the slopes, move `d_c_BH` back, and return d h."""
    mask_1BH = None if mask_BH is None else mask_BH[None].contiguous()
    d_out_TBH, d_h_1BH = d_out_TBH.contiguous(), d_c_BH.new_zeros(1, *d_c_BH.shape)
    for step in reversed(range(len(d_out_TBH))):
        gates_BD, d_gates_BD = trace.cell_TBD[step], slopes.gates[step]
        states = (trace.cells[step], trace.squashed_TBH[step], trace.outputs[step + 1], mask_1BH)
        moved = (d_out_TBH[step], d_h_1BH, d_c_BH, d_gates_BD)
        lstm.backward(1, gates_BD, *states, *moved, capped=cell.capped)
        # Of x and of h: each becomes the gradient of an earlier value by every round.
        d_values = (slopes.x[step], d_h_1BH[0])
        for d, weight in zip(d_values, (cell.weight_ih, cell.weight_hh), strict=True):
            torch.mm(d_gates_BD, weight, out=d)
        for index in reversed(range(len(cell.rounds))):
            d, d_read, slope = d_values[index % 2], d_values[1 - index % 2], slopes.rounds[index]
            tensors = (trace.gates[index], trace.values[index + 2], slope)
            _launch(_ungate, d, *(each[step] for each in tensors))
            between = _at(slopes.between[index], step)
            cell.rounds[index].read_back_(d_read, slope[step], between)
    return d_h_1BH[0] if mask_BH is None else d_h_1BH[0] * mask_BH


def _at(window: Tensor | None, step: int) -> Tensor | None:
    return None if window is None else window[step]


def _launch(kernel, *tensors: Tensor) -> None:
    """Start a kernel over the numbers of tensors of one shape."""
    numbers = tensors[0].numel()
    launch(kernel, (triton.cdiv(numbers, BLOCK),), *tensors, numbers, BLOCK=BLOCK, num_warps=WARPS)


@triton.jit
def _gate(gates, targets, results, numbers, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < numbers
    gate = tl.sigmoid(tl.load(gates + at, mask=inside, other=0.0))
    target = tl.load(targets + at, mask=inside, other=0.0)
    tl.store(gates + at, gate, mask=inside)
    tl.store(results + at, 2 * gate * target, mask=inside)


@triton.jit
def _ungate(d_values, gates, results, slopes, numbers, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < numbers
    d = tl.load(d_values + at, mask=inside, other=0.0)
    gate = tl.load(gates + at, mask=inside, other=0.0)
    result = tl.load(results + at, mask=inside, other=0.0)
    tl.store(slopes + at, d * result * (1 - gate), mask=inside)
    tl.store(d_values + at, 2 * d * gate, mask=inside)
