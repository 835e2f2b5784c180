"""A GRU layer over a window, with masks on the input and the state that its gates read.

    r, z = sigmoid(a_r), sigmoid(a_z),    k = (m h_{t-1}) W_hn' + b_k
    n = tanh(a_n + r k),                  h_t = (1 - z) n + z h_{t-1}

with a_n the part from the input only. Back through time, given d h of a step,

    d a_n = d h (1 - z) (1 - n^2),    d k = d a_n r,    d a_r = d a_n k r (1 - r),
    d a_z = d h (h_{t-1} - n) z (1 - z)

All factors except d h are computed for the whole window at once.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.model.fast.precision import in_full
from ablate.model.fast.steps import MaskedProduct, each_step, plain_product, states_from


def gru_steps(
    x_TBI: Tensor,
    h_BH: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_D: Tensor,
    inner_bias_H: Tensor,
    mask_SBI: Tensor | None = None,
    mask_SBH: Tensor | None = None,
    *,
    fast: bool = True,
) -> Tensor:
    """Every h, [T, B, H]. The h that z carries over is not masked. Gates in the order r, z, n.

    `fast=False` is the same by plain autograd, to step through and to test against.
    """
    arguments = (x_TBI, h_BH, weight_ih, weight_hh, bias_D, inner_bias_H, mask_SBI, mask_SBH)
    return in_full(_Steps, *arguments) if fast else _plain(*arguments)


def _plain(x_TBI, h_BH, weight_ih, weight_hh, bias_D, inner_bias_H, mask_SBI, mask_SBH):
    steps = []
    for x_BI in x_TBI:
        a_BD = plain_product(x_BI, weight_ih, mask_SBI) + bias_D
        from_h_BD = plain_product(h_BH, weight_hh, mask_SBH)
        (a_r, a_z, a_n), (h_r, h_z, h_n) = a_BD.chunk(3, -1), from_h_BD.chunk(3, -1)
        r, z = (a_r + h_r).sigmoid(), (a_z + h_z).sigmoid()
        n = (a_n + r * (h_n + inner_bias_H)).tanh()
        h_BH = (1 - z) * n + z * h_BH
        steps.append(h_BH)
    return torch.stack(steps)


class _Steps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_TBI, h_BH, weight_ih, weight_hh, bias_D, inner_bias_H, mask_SBI, mask_SBH):
        recurrent = MaskedProduct(weight_hh, mask_SBH)
        gates_TBD = MaskedProduct(weight_ih, mask_SBI).window(x_TBI, bias_D)
        r_z, k_TBH = gates_TBD.split(2 * h_BH.shape[1], -1)
        n_TBH = k_TBH.clone()
        k_TBH.copy_(inner_bias_H)
        h_all = states_from(h_BH, len(x_TBI))
        parts = each_step(r_z, *r_z.chunk(2, -1), k_TBH, n_TBH, h_all[:-1], h_all[1:])
        for shares, step in zip(recurrent.by_step(gates_TBD), parts, strict=True):
            r_z, r, z, k, n, h, h_after = step
            recurrent.add_(shares, h)
            r_z.sigmoid_()
            n.addcmul_(r, k).tanh_()
            torch.lerp(n, h, z, out=h_after)
        inputs = (x_TBI, weight_ih, weight_hh, mask_SBI, mask_SBH)
        ctx.save_for_backward(gates_TBD, n_TBH, h_all, *inputs)
        return h_all[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx, *outer: Tensor):
        (dh_TBH,) = outer
        gates_TBD, n_TBH, h_all, x_TBI, *weights, mask_SBI, mask_SBH = ctx.saved_tensors
        inputs = MaskedProduct(weights[0], mask_SBI)
        recurrent = MaskedProduct(weights[1], mask_SBH)
        da_TBD, da_n_TBH = _slopes(gates_TBD, n_TBH, h_all[:-1])
        others = torch.cat((torch.zeros_like(h_all[:1]), dh_TBH[:-1]))
        z = gates_TBD.chunk(3, -1)[1]
        factors = each_step(da_TBD.unflatten(-1, (3, -1)), da_n_TBH, z, others)
        steps = list(zip(recurrent.by_step(da_TBD), factors, strict=True))
        dh = dh_TBH[-1]
        for shares, (da_r_z_k, da_n, carried, other) in reversed(steps):
            da_r_z_k.mul_(dh[:, None])
            da_n.mul_(dh)
            dh = recurrent.step_back(shares, torch.addcmul(other, dh, carried))
        d_weight = recurrent.weight_back(da_TBD, h_all[:-1])
        k_part = da_TBD.chunk(3, -1)[2]
        d_inner_bias = k_part.sum((0, 1))
        k_part.copy_(da_n_TBH)  # from here on the gradient of the input's part: a_n instead of k
        d_inputs = (inputs.window_back(da_TBD), inputs.weight_back(da_TBD, x_TBI))
        d_bias = da_TBD.sum((0, 1))
        return d_inputs[0], dh, d_inputs[1], d_weight, d_bias, d_inner_bias, None, None


def _slopes(gates_TBD: Tensor, n_TBH: Tensor, before_TBH: Tensor) -> tuple[Tensor, Tensor]:
    """d a_r, d a_z and d k divided by d h, side by side, and d a_n divided by d h."""
    r, z, k = gates_TBD.chunk(3, -1)
    slopes = torch.empty_like(gates_TBD)
    of_r, of_z, of_k = slopes.chunk(3, -1)
    of_n = (1 - z).mul_(1 - n_TBH * n_TBH)
    torch.mul(of_n, r, out=of_k)
    torch.addcmul(of_k, of_k, r, value=-1, out=of_r).mul_(k)
    torch.addcmul(z, z, z, value=-1, out=of_z).mul_(before_TBH - n_TBH)
    return slopes, of_n
