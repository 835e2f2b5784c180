"""The layer of `ablate/lm/components/backbone/rhn.py` over a window, by kernels.

With h, t and m of a micro-step as in that file, its input state s and its result s', the gradient d
of s' gives

    d pre_h = d t (1 - h^2),    d pre_t = d (s' - s) (1 - t),    d s = d (1 - t) + m (d pre) W

since s' - s = t (h - s); each matrix's gradient is one product at the end.

If m and m' differ, h and t have each their share of every product:

    d s = d (1 - t) + m (d pre_h) W_h + m' (d pre_t) W_t

Shape suffixes: L micro-steps, N = TL of them, D = 2H: pre_h next to pre_t, S shares of D under one
mask each (1: both alike); others as in `flow.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.lm.model.fast.product import summed_outer
from ablate.lm.model.fast.steps import joined
from ablate.lm.model.native.recurrent import run_window


class RhnWindow(torch.autograd.Function):
    """The state after every step. `first_TBD` is the input's part of each first micro-step, with
    its bias; the parameters are all matrices, and the biases from the second micro-step on."""

    @staticmethod
    def forward(ctx, first_TBD: Tensor, s_BH: Tensor, mask_SBH: Tensor | None, *parameters: Tensor):
        depth, num_steps = (len(parameters) + 1) // 2, len(first_TBD)
        weights, biases = parameters[:depth], parameters[depth:]
        gates_LTBD = first_TBD.new_empty(depth, *first_TBD.shape)
        states = s_BH.new_empty(num_steps * depth + 1, *s_BH.shape)
        states[0] = s_BH
        if mask_SBH is None:
            read_SNBH = states[None, :-1]
        else:
            read_SNBH = states.new_empty(len(mask_SBH), *states[:-1].shape)
        bias_LD = torch.stack(biases) if biases else None
        reads = None if mask_SBH is None else read_SNBH
        tensors = (bias_LD, first_TBD.contiguous(), states, reads, gates_LTBD)
        sizes = (num_steps, *s_BH.shape, depth)
        run_window("highway_forward", weights, mask_SBH, sizes, *tensors)
        ctx.depth = depth
        ctx.save_for_backward(states, read_SNBH, gates_LTBD, mask_SBH, *weights)
        return states[depth::depth].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, *outer: Tensor):
        (d_out_TBH,) = outer
        states, read_SNBH, gates_LTBD, mask_SBH, *weights = ctx.saved_tensors
        depth, num_steps = ctx.depth, len(d_out_TBH)
        d_pre_LTBD = torch.empty_like(gates_LTBD)
        d_BH = torch.zeros_like(states[0])
        tensors = (states, gates_LTBD, d_out_TBH.contiguous(), d_BH, d_pre_LTBD)
        sizes = (num_steps, *d_BH.shape, depth)
        run_window("highway_backward", weights, mask_SBH, sizes, *tensors, back=True)
        read_LSTBH = read_SNBH.unflatten(1, (num_steps, depth)).permute(2, 0, 1, 3, 4)
        d_weights = [
            _weight_back(d_pre, reads) for d_pre, reads in zip(d_pre_LTBD, read_LSTBH, strict=True)
        ]
        d_biases = d_pre_LTBD[1:].sum((1, 2))
        return d_pre_LTBD[0], d_BH, None, *d_weights, *d_biases


def _weight_back(d_pre_TBD: Tensor, read_STBH: Tensor) -> Tensor:
    """The gradient of one matrix, from the inputs of its shares."""
    shares = zip(d_pre_TBD.chunk(len(read_STBH), -1), read_STBH, strict=True)
    return joined([summed_outer(d_pre, read) for d_pre, read in shares], 0)
