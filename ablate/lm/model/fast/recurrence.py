"""The simple recurrence x_t = f(u_t + R x_{t-1}) over a window, with its own backward pass.

Autograd would record three nodes per step and compute the gradient of R step by step. Here the
steps write into one buffer, and that gradient is a single product over all steps:

    d_t = f'(.) (g_t + R' d_{t+1}),    dL/du_t = d_t,    dL/dR = sum_t d_t x_{t-1}'
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.lm.model.activation import Activation
from ablate.lm.model.fast.precision import in_full
from ablate.lm.model.fast.product import summed_outer
from ablate.lm.model.fast.steps import masked


def recurrence(
    u_TBH: Tensor, x_BH: Tensor, weight_HH: Tensor, f: Activation, mask_BH: Tensor | None = None
) -> Tensor:
    """Every x_t, [T, B, H]; the mask is on the state as the recurrence reads it."""
    return in_full(_Recurrence, u_TBH, x_BH, weight_HH, mask_BH, f)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u_TBH, x_BH, weight_HH, mask_BH, f):
        x_TBH = u_TBH.clone(memory_format=torch.contiguous_format)
        bend_TBH = torch.empty_like(x_TBH) if f.keeps_bend else None
        last_BH, into_HH = x_BH, weight_HH.t()
        for step, out_BH in enumerate(x_TBH.unbind(0)):
            out_BH.addmm_(masked(last_BH, mask_BH), into_HH)
            last_BH = f.apply_(out_BH, None if bend_TBH is None else bend_TBH[step])
        ctx.f = f
        ctx.save_for_backward(bend_TBH, x_TBH, x_BH, weight_HH, mask_BH)
        return x_TBH

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_TBH):  # type: ignore[override]
        bend_TBH, x_TBH, x_BH, weight_HH, mask_BH = ctx.saved_tensors
        delta_TBH = grad_TBH.clone(memory_format=torch.contiguous_format)
        slope_TBH = ctx.f.slope(x_TBH, bend_TBH)
        through_steps_(delta_TBH, slope_TBH, weight_HH, mask_BH)
        _, needs_x, needs_weight, _, _ = ctx.needs_input_grad
        grad_x = grad_weight = None
        if needs_x:
            grad_x = masked(delta_TBH[0] @ weight_HH, mask_BH)
        if needs_weight:
            read_TBH = masked(torch.cat((x_BH[None], x_TBH[:-1])), mask_BH)
            grad_weight = summed_outer(delta_TBH, read_TBH)
        return delta_TBH, grad_x, grad_weight, None, None


def through_steps_(
    delta_TBH: Tensor, slope_TBH: Tensor | None, weight_HH: Tensor, mask_BH: Tensor | None
) -> None:
    """Turn the gradients of each step's output, in place, into those before its nonlinearity."""
    deltas = delta_TBH.unbind(0)
    for step in reversed(range(len(deltas))):
        if step + 1 < len(deltas):
            if mask_BH is None:
                deltas[step].addmm_(deltas[step + 1], weight_HH)
            else:
                deltas[step].addcmul_(deltas[step + 1] @ weight_HH, mask_BH)
        if slope_TBH is not None:
            deltas[step].mul_(slope_TBH[step])
