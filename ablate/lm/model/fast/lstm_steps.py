"""The LSTM layer of `ablate/lm/components/backbone/lstm.py` over a window, masks included.

That file has the formula. Back through time, given d h and d c of a step,

    d a_o = d h h_t (1 - o),    d c += d h (o - h_t tanh c_t),
    d a_i = d c g i (1 - i),    d a_f = d c c_{t-1} f (1 - f),    d a_g = d c i (1 - g^2)

and d c times f is passed on: by a kernel where there is one, else by plain autograd.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.lm.model.fast.steps import MaskedProduct, by_kernel, plain_product
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
) -> tuple[Tensor, Tensor]:
    """Every h, [T, B, H], and the last c, which is not masked. Gates in the order i, f, g, o."""
    arguments = (x_TBI, h_BH, c_BH, weight_ih, weight_hh, bias_D, mask_SBI, mask_SBH)
    return by_kernel(_Steps, plain_steps, *arguments)


def plain_steps(x_TBI, h_BH, c_BH, weight_ih, weight_hh, bias_D, mask_SBI=None, mask_SBH=None):
    """The same by plain autograd."""
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
        gates_TBD = MaskedProduct(weight_ih, mask_SBI).window(x_TBI, bias_D)
        h_all, c_all = _states_from(h_BH, len(x_TBI)), _states_from(c_BH, len(x_TBI))
        tanh_TBH = torch.empty_like(h_all[1:])
        filled = (gates_TBD, h_all, c_all, tanh_TBH)
        run_window("lstm_forward", [weight_hh], mask_SBH, tanh_TBH.shape, *filled)
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
        da_TBD = torch.empty_like(gates_TBD)
        # The kernel moves both back to the start of the window, in place.
        dh, dc = torch.zeros_like(dc), dc.clone(memory_format=torch.contiguous_format)
        tensors = (gates_TBD, c_all, tanh_TBH, dh_TBH.contiguous(), dh, dc, da_TBD)
        sizes = tanh_TBH.shape
        run_window("lstm_backward", weights[1:], mask_SBH, sizes, *tensors, back=True)
        d_inputs = (inputs.window_back(da_TBD), inputs.weight_back(da_TBD, x_TBI))
        d_weight = recurrent.weight_back(da_TBD, h_all[:-1])
        return d_inputs[0], dh, dc, d_inputs[1], d_weight, da_TBD.sum((0, 1)), None, None


def _states_from(first: Tensor, num_steps: int) -> Tensor:
    """A state before each step and after the last, of which the first is known."""
    states = first.new_empty(num_steps + 1, *first.shape)
    states[0] = first
    return states
