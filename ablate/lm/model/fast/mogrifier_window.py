"""The layer of `ablate/lm/components/backbone/mogrifier.py` over a window, with its own gradient.

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

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.lm.model.fast.mogrifier_trace import Cell, Round, Slopes, Trace, run_mogrifier
from ablate.lm.model.fast.precision import in_full
from ablate.lm.model.fast.product import summed_outer
from ablate.lm.model.fast.steps import each_step
from ablate.lm.model.native.library import usable


def fast_window(
    x_TBI: Tensor, h_BH: Tensor, c_BH: Tensor, mask_BH: Tensor | None, cell: Cell
) -> tuple[Tensor, Tensor]:
    """h after every step, and the last c."""
    rounds = [part for r in cell.rounds for part in (r.left, r.right, r.bias, r.mask)]
    parameters = (cell.weight_ih, cell.weight_hh, cell.bias, *rounds)
    return in_full(_Window, cell.capped, x_TBI, h_BH, c_BH, mask_BH, *parameters)


class _Window(torch.autograd.Function):
    @staticmethod
    def forward(ctx, capped: bool, x_TBI, h_BH, c_BH, mask_BH, *parameters):
        cell = _cell(capped, parameters)
        trace = empty_trace(x_TBI.contiguous(), h_BH, c_BH, mask_BH, cell)
        if usable(x_TBI, h_BH, mask_BH, *parameters):
            run_mogrifier("mogrifier_forward", mask_BH, cell, trace)
        else:
            _walk(x_TBI, mask_BH, cell, trace)
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
        given = (d_out_TBH, d_c_BH, mask_BH, cell, trace, slopes)
        if usable(d_out_TBH, d_c_BH, mask_BH, *parameters):
            d_h_BH = torch.zeros_like(d_c_BH)
            tensors = (d_out_TBH.contiguous(), d_h_BH, d_c_BH, slopes.gates, slopes.x)
            run_mogrifier("mogrifier_backward", mask_BH, cell, trace, *tensors, slopes=slopes)
        else:
            d_h_BH = _walk_back(*given)
        return None, slopes.x, d_h_BH, d_c_BH, None, *_gradients(trace, slopes, cell)


def _walk(x_TBI: Tensor, mask_BH: Tensor | None, cell: Cell, trace: Trace) -> None:
    """Run the steps and fill in the trace.

    Views are made once for all steps: at a few hundred units they cost as much as the arithmetic.
    """
    zero = x_TBI.new_zeros(())
    values, gates = list(each_step(*trace.values)), list(each_step(*trace.gates))
    between = [None if window is None else window.unbind() for window in trace.between]
    for step in range(len(x_TBI)):
        if mask_BH is not None:
            torch.mul(trace.outputs[step], mask_BH, out=values[step][1])
        for index, one in enumerate(cell.rounds):
            out = between[index]
            read = one.read(values[step][index + 1], None if out is None else out[step])
            gate = torch.addmm(one.bias, read, one.left.t(), out=gates[step][index]).sigmoid_()
            target, result = values[step][index], values[step][index + 2]
            torch.addcmul(zero, gate, target, value=2, out=result)  # 2 g_r v_{r-1}, in one call
        _advance(trace, cell, step)


def _walk_back(
    d_out_TBH: Tensor,
    d_c_BH: Tensor,
    mask_BH: Tensor | None,
    cell: Cell,
    trace: Trace,
    slopes: Slopes,
) -> Tensor:
    """Run the steps backwards: fill in the slopes, move `d_c_BH` back, and return d h."""
    zero = d_c_BH.new_zeros(())
    d_h_BH = torch.zeros_like(d_c_BH)
    windows = (trace.values, trace.gates, slopes.rounds)
    values, gates, steep = (list(each_step(*tensors)) for tensors in windows)
    for step in reversed(range(len(d_out_TBH))):
        d_h_BH.add_(d_out_TBH[step])
        _retreat(trace, slopes, cell, d_h_BH, d_c_BH, step)
        d_values = {
            trace.last_x: torch.mm(slopes.gates[step], cell.weight_ih),
            trace.last_h: torch.mm(slopes.gates[step], cell.weight_hh),
        }
        for index in reversed(range(len(cell.rounds))):
            gate, value, slope = gates[step][index], values[step][index + 2], steep[step][index]
            d = d_values.pop(index + 2)
            torch.addcmul(value, value, gate, value=-1, out=slope).mul_(d)
            d_values[index] = torch.addcmul(zero, d, gate, value=2, out=d)
            inner = slopes.between[index]
            out = None if inner is None else inner[step]
            cell.rounds[index].read_back_(d_values[index + 1], slope, out)
        slopes.x[step] = d_values[0]
        d_h_BH = d_values[1] if mask_BH is None else d_values[1].mul_(mask_BH)
    return d_h_BH


def _cell(capped: bool, parameters: Sequence) -> Cell:
    """The cell of `fast_window`'s flat parameters."""
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


def _advance(trace: Trace, cell: Cell, step: int) -> None:
    """Compute the cell of a step."""
    pre_BD = trace.multiply(cell, step)
    i, f, g, o = pre_BD.chunk(4, -1)
    pre_BD[:, : -2 * g.shape[-1]].sigmoid_()
    g.tanh_()
    o.sigmoid_()
    c = torch.mul(f, trace.cells[step], out=trace.cells[step + 1])
    c.addcmul_(torch.minimum(i, 1 - f) if cell.capped else i, g)
    torch.mul(o, torch.tanh(c, out=trace.squashed_TBH[step]), out=trace.outputs[step + 1])


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


def _retreat(
    trace: Trace, slopes: Slopes, cell: Cell, d_h_BH: Tensor, d_c_BH: Tensor, step: int
) -> None:
    """Back through the cell: fill in the gates' slopes, and move `d_c_BH` one step back."""
    i, f, g, o = trace.cell_TBD[step].chunk(4, -1)
    slope_i, slope_f, slope_g, slope_o = slopes.gates[step].chunk(4, -1)
    squashed = trace.squashed_TBH[step]
    torch.mul(d_h_BH, squashed, out=slope_o)
    d_squashed = d_h_BH * o
    d_c_BH.add_(d_squashed).addcmul_(d_squashed.mul_(squashed), squashed, value=-1)
    torch.mul(d_c_BH, g, out=slope_i)
    torch.mul(d_c_BH, trace.cells[step], out=slope_f)
    used = i
    if cell.capped:
        used = torch.minimum(i, 1 - f)
        moved = torch.where(i > used, slope_i, 0)  # if the gate is capped, its value depends on f
        slope_i.sub_(moved)
        slope_f.sub_(moved)
    torch.mul(d_c_BH, used, out=slope_g)
    slope_g.addcmul_(slope_g * g, g, value=-1)
    for slope, gate in ((slope_i, i), (slope_f, f), (slope_o, o)):
        slope.mul_(gate)
        slope.addcmul_(slope, gate, value=-1)
    d_c_BH.mul_(f)


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
