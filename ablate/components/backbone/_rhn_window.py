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
    return _Window.apply(first_TBD, s_BH, mask_BH, *weights, *biases)  # type: ignore


class _Window(torch.autograd.Function):
    @staticmethod
    def forward(ctx, first_TBD: Tensor, s_BH: Tensor, mask_BH: Tensor | None, *parameters: Tensor):
        depth, num_steps = (len(parameters) + 1) // 2, len(first_TBD)
        weights, biases = parameters[:depth], parameters[depth:]
        gates_LTBD = first_TBD.new_empty(depth, *first_TBD.shape)
        states = s_BH.new_empty(num_steps * depth + 1, *s_BH.shape)
        states[0] = s_BH
        read = states[:-1] if mask_BH is None else torch.empty_like(states[:-1])
        s, *results = states.unbind()
        for index, (after, read_BH) in enumerate(zip(results, read.unbind(), strict=True)):
            step, level = divmod(index, depth)
            if mask_BH is not None:
                torch.mul(s, mask_BH, out=read_BH)
            gates = gates_LTBD[level, step]
            added = biases[level - 1] if level else first_TBD[step]
            torch.addmm(added, read_BH, weights[level].t(), out=gates)
            h, t = gates.chunk(2, -1)
            s = torch.lerp(s, h.tanh_(), t.sigmoid_(), out=after)
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
        through = torch.empty_like(d_BH)
        for step in reversed(range(num_steps)):
            d_BH.add_(d_out_TBH[step])
            d_pre_LBD = d_pre_LTBD[:, step]
            keep_LBH = _factors(
                gates_LTBD[:, step], states[step * depth : (step + 1) * depth + 1], d_pre_LBD
            )
            split = d_pre_LBD.unflatten(-1, (2, -1)).unbind()
            d_pres, keeps = d_pre_LBD.unbind(), keep_LBH.unbind()
            for level in reversed(range(depth)):
                split[level].mul_(d_BH[:, None])
                torch.mm(d_pres[level], weights[level], out=through)
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
