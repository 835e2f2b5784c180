"""The layer of `ablate/lm/components/backbone/mogrifier.py` over a window, by kernels.

That file has the formula. Here the values of x and h in the rounds are numbered: v_0 = x, v_1 = h
(masked), and round r reads v_r, has the gate g_r (the sigmoid) and gives v_{r+1} = 2 g_r v_{r-1};
the last two values enter the LSTM's gates. Going back, with d the gradient of v_{r+1}, the gradient
of the round's pre-activation is d v_{r+1} (1 - g_r), and that of v_{r-1} gets 2 d g_r. Nothing here
depends on x alone, so no product of the input can be moved out of the loop; each matrix's gradient
is a single product after the last step back.

Shape suffixes: D = 4H, the gates i, f, g, o side by side; K units between a round's two matrices;
others as in `flow.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.lm.model.fast.mogrifier_trace import Cell, Round, Slopes, Trace, run_mogrifier
from ablate.lm.model.fast.product import summed_outer
from ablate.lm.model.fast.steps import by_kernel

Window = Callable[[Tensor, Tensor, Tensor, Tensor | None, Cell], tuple[Tensor, Tensor]]


def window_of(
    plain: Window, x_TBI: Tensor, h_BH: Tensor, c_BH: Tensor, mask_BH: Tensor | None, cell: Cell
) -> tuple[Tensor, Tensor]:
    """h after every step, and the last c: by kernels, or as `plain` computes them."""

    def plainly(capped, x_TBI, h_BH, c_BH, mask_BH, *parameters):
        return plain(x_TBI, h_BH, c_BH, mask_BH, _cell(capped, parameters))

    rounds = [part for r in cell.rounds for part in (r.left, r.right, r.bias, r.mask)]
    parameters = (cell.weight_ih, cell.weight_hh, cell.bias, *rounds)
    return by_kernel(_Window, plainly, cell.capped, x_TBI, h_BH, c_BH, mask_BH, *parameters)


class _Window(torch.autograd.Function):
    @staticmethod
    def forward(ctx, capped: bool, x_TBI, h_BH, c_BH, mask_BH, *parameters):
        cell = _cell(capped, parameters)
        trace = empty_trace(x_TBI.contiguous(), h_BH, c_BH, mask_BH, cell)
        run_mogrifier("mogrifier_forward", mask_BH, cell, trace)
        ctx.capped, ctx.trace = capped, trace
        ctx.save_for_backward(x_TBI, mask_BH, *parameters)
        return trace.outputs[1:].clone(), trace.cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, *outer: Tensor):
        d_out_TBH, d_c_BH = outer
        _, mask_BH, *parameters = ctx.saved_tensors
        cell, trace = _cell(ctx.capped, parameters), ctx.trace
        slopes = empty_slopes(trace, cell)
        d_c_BH = d_c_BH.clone(memory_format=torch.contiguous_format)
        d_h_BH = torch.zeros_like(d_c_BH)
        tensors = (d_out_TBH.contiguous(), d_h_BH, d_c_BH, slopes.gates, slopes.x)
        run_mogrifier("mogrifier_backward", mask_BH, cell, trace, *tensors, slopes=slopes)
        return None, slopes.x, d_h_BH, d_c_BH, None, *_gradients(trace, slopes, cell)


def _cell(capped: bool, parameters: Sequence) -> Cell:
    """The cell of `window_of`'s flat parameters."""
    weight_ih, weight_hh, bias, *rest = parameters
    rounds = tuple(
        Round(left=rest[at], right=rest[at + 1], bias=rest[at + 2], mask=rest[at + 3])
        for at in range(0, len(rest), 4)
    )
    return Cell(weight_ih=weight_ih, weight_hh=weight_hh, bias=bias, rounds=rounds, capped=capped)


def empty_trace(x_TBI: Tensor, h_BH: Tensor, c_BH: Tensor, mask_BH, cell: Cell) -> Trace:
    """An empty trace with the state before the first step."""
    num_steps, num_rows, _ = x_TBI.shape

    def empty(width: int, steps: int = num_steps) -> Tensor:
        return x_TBI.new_empty(steps, num_rows, width)

    outputs, cells = (empty(h_BH.shape[-1], num_steps + 1) for _ in range(2))
    outputs[0], cells[0] = h_BH, c_BH
    values = [x_TBI, outputs[:-1] if mask_BH is None else torch.empty_like(outputs[:-1])]
    values += [empty(len(one.bias)) for one in cell.rounds]
    between = [
        None if one.right is None and one.mask is None else empty(one.left.shape[1])
        for one in cell.rounds
    ]
    return Trace(
        values=values,
        gates=[empty(len(one.bias)) for one in cell.rounds],
        between=between,
        cell_TBD=empty(len(cell.bias)),
        outputs=outputs,
        cells=cells,
        squashed_TBH=torch.empty_like(cells[:-1]),
    )


def empty_slopes(trace: Trace, cell: Cell) -> Slopes:
    """Uninitialized gradients."""
    return Slopes(
        x=torch.empty_like(trace.values[0]),
        gates=torch.empty_like(trace.cell_TBD),
        rounds=[torch.empty_like(gate) for gate in trace.gates],
        between=[
            None if one.right is None or between is None else torch.empty_like(between)
            for one, between in zip(cell.rounds, trace.between, strict=True)
        ],
    )


def _gradients(trace: Trace, slopes: Slopes, cell: Cell) -> list[Tensor | None]:
    """The gradients of the parameters, in the order of `_cell`."""
    gradients: list[Tensor | None] = [
        summed_outer(slopes.gates, trace.values[trace.last_x]),
        summed_outer(slopes.gates, trace.values[trace.last_h]),
        slopes.gates.sum((0, 1)),
    ]
    for index, one in enumerate(cell.rounds):
        read, slope, inner = trace.between[index], slopes.rounds[index], slopes.between[index]
        value = trace.values[index + 1]
        gradients.append(summed_outer(slope, value if read is None else read))
        gradients.append(None if one.right is None or inner is None else summed_outer(inner, value))
        gradients += [slope.sum((0, 1)), None]
    return gradients
