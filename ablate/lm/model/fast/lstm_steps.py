"""The LSTM layer of `ablate/lm/components/backbone/lstm.py` over a window, masks included.

That file has the formula. Back through time, given d h and d c of a step,

    d a_o = d h h_t (1 - o),    d c += d h (o - h_t tanh c_t),
    d a_i = d c g i (1 - i),    d a_f = d c c_{t-1} f (1 - f),    d a_g = d c i (1 - g^2)

and d c times f is passed on. All factors except d h and d c are computed for the whole window at
once.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.lm.model.fast.precision import in_full
from ablate.lm.model.fast.steps import MaskedProduct, each_step, plain_product, states_from
from ablate.lm.model.native.library import usable
from ablate.lm.model.native.recurrent import run_window


def lstm_steps(
    x_TBI: Tensor,
    h_BH: Tensor,
    c_BH: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_D: Tensor,
    mask_SBI: Tensor | None = None,
    mask_SBH: Tensor | None = None,
    *,
    fast: bool = True,
) -> tuple[Tensor, Tensor]:
    """Every h, [T, B, H], and the last c, which is not masked. Gates in the order i, f, g, o.

    `fast=False` is the same by plain autograd, to step through and to test against.
    """
    arguments = (x_TBI, h_BH, c_BH, weight_ih, weight_hh, bias_D, mask_SBI, mask_SBH)
    return in_full(_Steps, *arguments) if fast else _plain(*arguments)


def _plain(x_TBI, h_BH, c_BH, weight_ih, weight_hh, bias_D, mask_SBI, mask_SBH):
    steps = []
    for a_BD in plain_product(x_TBI, weight_ih, mask_SBI) + bias_D:
        i, f, g, o = (a_BD + plain_product(h_BH, weight_hh, mask_SBH)).chunk(4, -1)
        c_BH = f.sigmoid() * c_BH + i.sigmoid() * g.tanh()
        h_BH = o.sigmoid() * c_BH.tanh()
        steps.append(h_BH)
    return torch.stack(steps), c_BH


class _Steps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_TBI, h_BH, c_BH, weight_ih, weight_hh, bias_D, mask_SBI, mask_SBH):
        recurrent = MaskedProduct(weight_hh, mask_SBH)
        gates_TBD = MaskedProduct(weight_ih, mask_SBI).window(x_TBI, bias_D)
        h_all, c_all = states_from(h_BH, len(x_TBI)), states_from(c_BH, len(x_TBI))
        tanh_TBH = torch.empty_like(h_all[1:])
        if usable(gates_TBD, h_all, weight_hh, mask_SBH):
            filled = (gates_TBD, h_all, c_all, tanh_TBH)
            run_window("lstm_forward", [weight_hh], mask_SBH, tanh_TBH.shape, *filled)
        else:
            _walk(gates_TBD, h_all, c_all, tanh_TBH, recurrent)
        inputs = (x_TBI, weight_ih, weight_hh, mask_SBI, mask_SBH)
        ctx.save_for_backward(gates_TBD, h_all, c_all, tanh_TBH, *inputs)
        return h_all[1:], c_all[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx, *outer: Tensor):
        dh_TBH, dc = outer
        gates_TBD, h_all, c_all, tanh_TBH, x_TBI, *weights, mask_SBI, mask_SBH = ctx.saved_tensors
        inputs = MaskedProduct(weights[0], mask_SBI)
        recurrent = MaskedProduct(weights[1], mask_SBH)
        saved, read = (gates_TBD, h_all, c_all, tanh_TBH), (h_all, weights[1], mask_SBH, dh_TBH, dc)
        if usable(gates_TBD, *read):
            da_TBD = torch.empty_like(gates_TBD)
            # The kernel moves both back to the start of the window, in place.
            dh, dc = torch.zeros_like(dc), dc.clone(memory_format=torch.contiguous_format)
            tensors = (gates_TBD, c_all, tanh_TBH, dh_TBH.contiguous(), dh, dc, da_TBD)
            sizes = tanh_TBH.shape
            run_window("lstm_backward", weights[1:], mask_SBH, sizes, *tensors, back=True)
        else:
            dh, dc, da_TBD = _walk_back(saved, dh_TBH, dc, recurrent)
        d_inputs = (inputs.window_back(da_TBD), inputs.weight_back(da_TBD, x_TBI))
        d_weight = recurrent.weight_back(da_TBD, h_all[:-1])
        return d_inputs[0], dh, dc, d_inputs[1], d_weight, da_TBD.sum((0, 1)), None, None


def _walk(
    gates_TBD: Tensor, h_all: Tensor, c_all: Tensor, tanh_TBH: Tensor, recurrent: MaskedProduct
) -> None:
    """Run the steps: fills in the states, and the gates, which hold the input's part."""
    i_f, g_o = gates_TBD.chunk(2, -1)
    gates = (*i_f.chunk(2, -1), *g_o.chunk(2, -1))
    states = each_step(h_all[:-1], h_all[1:], c_all[:-1], c_all[1:], tanh_TBH)
    steps = zip(recurrent.by_step(gates_TBD), each_step(i_f, *gates), states, strict=True)
    for shares, (i_f, i, f, g, o), (h, h_after, c, c_after, tanh) in steps:
        recurrent.add_(shares, h)
        i_f.sigmoid_()  # two gates that lie side by side, in one call
        g.tanh_()
        o.sigmoid_()
        torch.mul(f, c, out=c_after).addcmul_(i, g)
        torch.mul(o, torch.tanh(c_after, out=tanh), out=h_after)


def _walk_back(
    saved: tuple[Tensor, ...], dh_TBH: Tensor, dc: Tensor, recurrent: MaskedProduct
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the steps backwards: d h and d c before the window, and every d a."""
    gates_TBD, h_all, c_all, tanh_TBH = saved
    da_TBD = _slopes(gates_TBD, c_all[:-1], h_all[1:])
    forget, within = _carried(gates_TBD, h_all[1:], tanh_TBH)
    da_TB4H = da_TBD.unflatten(-1, (4, -1))
    others = torch.cat((torch.zeros_like(h_all[:1]), dh_TBH[:-1]))
    factors = each_step(da_TB4H[:, :, :3], da_TB4H[:, :, 3], within, forget, others)
    steps = list(zip(recurrent.by_step(da_TBD), factors, strict=True))
    dh, dc = dh_TBH[-1], dc.clone()
    for shares, (da_i_f_g, da_o, by_dh, by_dc, other) in reversed(steps):
        dc.addcmul_(dh, by_dh)
        da_i_f_g.mul_(dc[:, None])
        da_o.mul_(dh)
        dc.mul_(by_dc)
        dh = recurrent.step_back(shares, other)
    return dh, dc, da_TBD


def _slopes(gates_TBD: Tensor, before_TBH: Tensor, h_TBH: Tensor) -> Tensor:
    """d a divided by d c (for the output gate, by d h), without temporary buffers."""
    i, f, g, o = gates_TBD.chunk(4, -1)
    slopes = torch.empty_like(gates_TBD)
    of_i, of_f, of_g, of_o = slopes.chunk(4, -1)
    torch.addcmul(i, i, i, value=-1, out=of_i).mul_(g)
    torch.addcmul(f, f, f, value=-1, out=of_f).mul_(before_TBH)
    torch.addcmul(i, torch.mul(i, g, out=of_g), g, value=-1, out=of_g)
    torch.addcmul(h_TBH, h_TBH, o, value=-1, out=of_o)
    return slopes


def _carried(gates_TBD: Tensor, h_TBH: Tensor, tanh_TBH: Tensor) -> tuple[Tensor, Tensor]:
    """d c divided by the next step's d c, and by d h."""
    _, f, _, o = gates_TBD.chunk(4, -1)
    return f, torch.addcmul(o, h_TBH, tanh_TBH, value=-1)
