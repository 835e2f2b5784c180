"""A recurrent highway layer over a window, with its gradient through time in closed form.

With a micro-step's h, t, the state s that it read and its result s', the gradient d of s' gives

    d pre_h = d t (1 - h^2),    d pre_t = d (s' - s) (1 - t),    d s = d (1 - t) + m (d pre) W

since s' - s = t (h - s). All factors but d are known before a step back begins, so they are formed
for all its micro-steps at once, and each matrix's gradient is one product after the last.

Shape suffixes: L micro-steps, D = 2H: pre_h beside pre_t; others as in `flow.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.components.precision import in_full
from ablate.components.product import product


def fast_window(
    first_TBD: Tensor,
    s_BH: Tensor,
    mask_BH: Tensor | None,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
) -> Tensor:
    """The state after every step. `first_TBD` is the input's part of each first micro-step, bias
    included, so `biases` begin with the second's."""
    return in_full(_Window, first_TBD, s_BH, mask_BH, *weights, *biases)


class _Window(torch.autograd.Function):
    """Views are made once for all steps: at a few hundred units they cost what the sums do."""

    @staticmethod
    def forward(ctx, first_TBD: Tensor, s_BH: Tensor, mask_BH: Tensor | None, *parameters: Tensor):
        depth, num_steps = (len(parameters) + 1) // 2, len(first_TBD)
        weights, biases = parameters[:depth], parameters[depth:]
        gates_LTBD = first_TBD.new_empty(depth, *first_TBD.shape)
        states = s_BH.new_empty(num_steps * depth + 1, *s_BH.shape)
        states[0] = s_BH
        read = states[:-1] if mask_BH is None else torch.empty_like(states[:-1])
        s, *results = states.unbind()
        reads = read.unbind()
        levels = [
            (level, weight.t(), gates.unbind(), *(part.unbind() for part in gates.chunk(2, -1)))
            for level, (weight, gates) in enumerate(zip(weights, gates_LTBD, strict=True))
        ]
        for step, first_BD in enumerate(first_TBD.unbind()):
            for level, weight, gates, h, t in levels:
                index = step * depth + level
                if mask_BH is not None:
                    torch.mul(s, mask_BH, out=reads[index])
                added = biases[level - 1] if level else first_BD
                torch.addmm(added, reads[index], weight, out=gates[step])
                s = torch.lerp(s, h[step].tanh_(), t[step].sigmoid_(), out=results[index])
        ctx.depth = depth
        ctx.save_for_backward(states, read, gates_LTBD, mask_BH, *weights)
        return states[depth::depth].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, *outer: Tensor):
        (d_out_TBH,) = outer
        states, read, gates_LTBD, mask_BH, *weights = ctx.saved_tensors
        depth, num_steps = ctx.depth, len(d_out_TBH)
        d_pre_LTBD = torch.empty_like(gates_LTBD)
        d_BH = torch.zeros_like(states[0])
        d_1BH = d_BH[:, None]  # for both pre-activations
        through = torch.empty_like(d_BH)
        levels = [
            (level, weight, d_pre.unbind(), d_pre.unflatten(-1, (2, -1)).unbind())
            for level, (weight, d_pre) in enumerate(zip(weights, d_pre_LTBD, strict=True))
        ][::-1]
        for step in reversed(range(num_steps)):
            d_BH.add_(d_out_TBH[step])
            around = states[step * depth : (step + 1) * depth + 1]
            keeps = _factors(gates_LTBD[:, step], around, d_pre_LTBD[:, step]).unbind()
            for level, weight, d_pre, split in levels:
                split[step].mul_(d_1BH)
                torch.mm(d_pre[step], weight, out=through)
                if mask_BH is not None:
                    through.mul_(mask_BH)
                torch.addcmul(through, d_BH, keeps[level], out=d_BH)
        read_LTBH = read.unflatten(0, (num_steps, depth)).transpose(0, 1)
        d_weights = [
            product(d_pre.flatten(0, 1).t(), read.flatten(0, 1).t())
            for d_pre, read in zip(d_pre_LTBD, read_LTBH, strict=True)
        ]
        d_biases = d_pre_LTBD[1:].sum((1, 2))
        return d_pre_LTBD[0], d_BH, None, *d_weights, *d_biases


def _factors(gates_LBD: Tensor, states: Tensor, factors_LBD: Tensor) -> Tensor:
    """Fills in what d is multiplied by on its way to each pre-activation; returns that to s."""
    h, t = gates_LBD.chunk(2, -1)
    to_h, to_t = factors_LBD.chunk(2, -1)
    torch.mul(h, h, out=to_h)
    torch.addcmul(t, t, to_h, value=-1, out=to_h)
    keep = 1 - t
    torch.sub(states[1:], states[:-1], out=to_t).mul_(keep)
    return keep
