"""The layer of `ablate/lm/components/backbone/rhn.py` over a window, its gradient in closed form.

With h, t and m of a micro-step as in that file, its input state s and its result s', the gradient d
of s' gives

    d pre_h = d t (1 - h^2),    d pre_t = d (s' - s) (1 - t),    d s = d (1 - t) + m (d pre) W

since s' - s = t (h - s). All factors except d are known before a step back starts, so they are
computed for all its micro-steps at once, and each matrix's gradient is one product at the end.

If m and m' differ, h and t have each their share of every product:

    d s = d (1 - t) + m (d pre_h) W_h + m' (d pre_t) W_t

Shape suffixes: L micro-steps, N = TL of them, D = 2H: pre_h next to pre_t, S shares of D under one
mask each (1: both alike); others as in `flow.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.lm.model.fast.precision import in_full
from ablate.lm.model.fast.product import summed_outer
from ablate.lm.model.fast.steps import joined
from ablate.lm.model.native.library import usable
from ablate.lm.model.native.recurrent import run_window


def fast_window(
    first_TBD: Tensor,
    s_BH: Tensor,
    mask_SBH: Tensor | None,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
) -> Tensor:
    """The state after every step. `first_TBD` is the input's part of each first micro-step, with
    its bias, so `biases` start with the second micro-step's."""
    return in_full(_Window, first_TBD, s_BH, mask_SBH, *weights, *biases)


class _Window(torch.autograd.Function):
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
        given, filled = (first_TBD, mask_SBH, weights, biases), (states, read_SNBH, gates_LTBD)
        if usable(first_TBD, s_BH, mask_SBH, *parameters):
            bias_LD = torch.stack(biases) if biases else None
            reads = None if mask_SBH is None else read_SNBH
            tensors = (bias_LD, first_TBD.contiguous(), states, reads, gates_LTBD)
            sizes = (num_steps, *s_BH.shape, depth)
            run_window("highway_forward", weights, mask_SBH, sizes, *tensors)
        else:
            _walk(*given, *filled)
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
        both = (d_out_TBH, mask_SBH, weights, states, gates_LTBD, d_BH, d_pre_LTBD)
        if usable(d_out_TBH, states, mask_SBH, *weights):
            tensors = (states, gates_LTBD, d_out_TBH.contiguous(), d_BH, d_pre_LTBD)
            sizes = (num_steps, *d_BH.shape, depth)
            run_window("highway_backward", weights, mask_SBH, sizes, *tensors, back=True)
        else:
            _walk_back(*both)
        read_LSTBH = read_SNBH.unflatten(1, (num_steps, depth)).permute(2, 0, 1, 3, 4)
        d_weights = [
            _weight_back(d_pre, reads) for d_pre, reads in zip(d_pre_LTBD, read_LSTBH, strict=True)
        ]
        d_biases = d_pre_LTBD[1:].sum((1, 2))
        return d_pre_LTBD[0], d_BH, None, *d_weights, *d_biases


def _walk(
    first_TBD: Tensor,
    mask_SBH: Tensor | None,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    states: Tensor,
    read_SNBH: Tensor,
    gates_LTBD: Tensor,
) -> None:
    """Run the micro-steps: fill in every state except the first, the masked states, and the gates.

    Views are made once for all steps: at a few hundred units they cost as much as the arithmetic.
    """
    depth, num_steps, masks = len(weights), len(first_TBD), _shares(mask_SBH)
    s, *results = states.unbind()
    reads = [read.unbind() for read in read_SNBH]
    added = [_by_step(first_TBD, len(masks))]
    added += [[(b,) * num_steps for b in bias.chunk(len(masks))] for bias in biases]
    levels = []
    for add, weight, gates in zip(added, weights, gates_LTBD, strict=True):
        turned = [share.t() for share in weight.chunk(len(masks))]
        shares = zip(masks, reads, add, turned, _by_step(gates, len(masks)), strict=True)
        levels.append((list(shares), *_by_step(gates, 2)))
    for step in range(num_steps):
        for index, (shares, h, t) in enumerate(levels, step * depth):
            for mask, read, add, weight, gates in shares:
                if mask is not None:
                    torch.mul(s, mask, out=read[index])
                torch.addmm(add[step], read[index], weight, out=gates[step])
            # s + t (h - s), which is h t + s (1 - t).
            s = torch.lerp(s, h[step].tanh_(), t[step].sigmoid_(), out=results[index])


def _walk_back(
    d_out_TBH: Tensor,
    mask_SBH: Tensor | None,
    weights: Sequence[Tensor],
    states: Tensor,
    gates_LTBD: Tensor,
    d_BH: Tensor,
    d_pre_LTBD: Tensor,
) -> None:
    """Run the micro-steps backwards: `d_BH` becomes the gradient of the state before the window."""
    d_1BH = d_BH[:, None]  # for both pre-activations
    through, another = torch.empty_like(d_BH), torch.empty_like(d_BH)
    depth, masks = len(weights), _shares(mask_SBH)
    levels = []
    for level, (weight, d_pre) in enumerate(zip(weights, d_pre_LTBD, strict=True)):
        parts = (_by_step(d_pre, len(masks)), weight.chunk(len(masks)), masks)
        split = d_pre.unflatten(-1, (2, -1)).unbind()
        levels.insert(0, (level, split, *zip(*parts, strict=True)))
    for step in reversed(range(len(d_out_TBH))):
        d_BH.add_(d_out_TBH[step])
        around = states[step * depth : (step + 1) * depth + 1]
        keeps = _factors(gates_LTBD[:, step], around, d_pre_LTBD[:, step]).unbind()
        for level, split, (d_pre, weight, mask), *others in levels:
            split[step].mul_(d_1BH)
            torch.mm(d_pre[step], weight, out=through)
            if mask is not None:
                through.mul_(mask)
            for d_pre, weight, mask in others:
                through.addcmul_(torch.mm(d_pre[step], weight, out=another), mask)
            torch.addcmul(through, d_BH, keeps[level], out=d_BH)


def _shares(mask_SBH: Tensor | None) -> tuple[Tensor | None, ...]:
    """The mask of each share of the pre-activations."""
    return (None,) if mask_SBH is None else mask_SBH.unbind()


def _by_step(a_TBD: Tensor, num_shares: int) -> list[tuple[Tensor, ...]]:
    """Each share's view of every step."""
    return [share.unbind() for share in a_TBD.chunk(num_shares, -1)]


def _weight_back(d_pre_TBD: Tensor, read_STBH: Tensor) -> Tensor:
    """The gradient of one matrix, from the inputs of its shares."""
    shares = zip(d_pre_TBD.chunk(len(read_STBH), -1), read_STBH, strict=True)
    return joined([summed_outer(d_pre, read) for d_pre, read in shares], 0)


def _factors(gates_LBD: Tensor, states: Tensor, factors_LBD: Tensor) -> Tensor:
    """Fill in the factors from d to each pre-activation; return the factor from d to s."""
    h, t = gates_LBD.chunk(2, -1)
    to_h, to_t = factors_LBD.chunk(2, -1)
    torch.mul(h, h, out=to_h)
    torch.addcmul(t, t, to_h, value=-1, out=to_h)
    keep = 1 - t
    torch.sub(states[1:], states[:-1], out=to_t).mul_(keep)
    return keep
