"""The diagonal recurrence h_t = a_t h_{t-1} + b_t over a window, real or complex.

By a kernel where there is one, else in chunks: all chunks take their steps at once, each from a
state of 0, and then every chunk adds what the state before it contributes,

    h_t = h'_t + (a_t a_{t-1} ... a_s) h_{s-1},    s the first step of t's chunk

so that a window of T steps takes about 3 sqrt(T) operations in turn instead of T. Nothing is
divided and no logarithm is taken, so an a of 0 or of any sign is as good as another. Backward,

    d_t = g_t + conj(a_{t+1}) d_{t+1},    dL/db_t = d_t,    dL/da_t = conj(h_{t-1}) d_t

is the same recurrence from the last step to the first. `scan_plain` is the formula step by step.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.lm.model.fast.precision import in_full
from ablate.lm.model.native import recurrent
from ablate.lm.model.native.library import usable


def scan(a_TBH: Tensor, b_TBH: Tensor, h_BH: Tensor) -> Tensor:
    """Every h_t, [T, B, H]. a may have one step, which applies to all, and one row for all rows."""
    return in_full(_Scan, a_TBH, b_TBH, h_BH)


def scan_plain(a_TBH: Tensor, b_TBH: Tensor, h_BH: Tensor) -> Tensor:
    """The formula step by step, with plain autograd."""
    steps = []
    for a_BH, b_BH in zip(a_TBH.expand(len(b_TBH), -1, -1), b_TBH, strict=True):
        h_BH = a_BH * h_BH + b_BH
        steps.append(h_BH)
    return torch.stack(steps)


def in_chunks(a_TBH: Tensor, b_TBH: Tensor, h_BH: Tensor, length: int | None = None) -> Tensor:
    """Every h_t, without autograd; by chunks of `length` steps, sqrt(T) unless given."""
    num_steps, each = len(b_TBH), len(a_TBH) > 1  # whether each step has an a of its own
    length = min(length or math.ceil(math.sqrt(num_steps)), num_steps)
    whole = num_steps // length * length
    out_TBH = torch.empty_like(b_TBH, memory_format=torch.contiguous_format)
    chunks_CLBH = out_TBH[:whole].unflatten(0, (-1, length))
    reach_CLBH = _within(a_TBH[:whole], b_TBH[:whole], chunks_CLBH)
    for number, chunk_LBH in enumerate(chunks_CLBH):
        chunk_LBH.addcmul_(reach_CLBH[number if each else 0], h_BH)
        h_BH = chunk_LBH[-1]
    for step in range(whole, num_steps):  # fewer than a chunk
        a_BH = a_TBH[step if each else 0]
        h_BH = torch.addcmul(b_TBH[step], a_BH, h_BH, out=out_TBH[step])
    return out_TBH


def _within(a_TBH: Tensor, b_TBH: Tensor, out_CLBH: Tensor) -> Tensor:
    """Fill in every chunk's states, from a state of 0; return the products of a up to each step."""
    length = out_CLBH.shape[1]
    one = len(a_TBH) == 1
    a_CLBH = (a_TBH.expand(length, -1, -1) if one else a_TBH).unflatten(0, (-1, length))
    b_CLBH = b_TBH.unflatten(0, (-1, length))
    reach_CLBH = torch.empty_like(a_CLBH, memory_format=torch.contiguous_format)
    out_CLBH[:, 0], reach_CLBH[:, 0] = b_CLBH[:, 0], a_CLBH[:, 0]
    for step in range(1, length):
        a_CBH, before = a_CLBH[:, step], step - 1
        torch.addcmul(b_CLBH[:, step], a_CBH, out_CLBH[:, before], out=out_CLBH[:, step])
        torch.mul(a_CBH, reach_CLBH[:, before], out=reach_CLBH[:, step])
    return reach_CLBH


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a_TBH, b_TBH, h_BH):
        ctx.by_kernel = _takes_kernel(a_TBH, b_TBH, h_BH)
        if ctx.by_kernel:
            out_TBH = torch.empty_like(b_TBH, memory_format=torch.contiguous_format)
            factor = _for_kernel(a_TBH, h_BH)
            recurrent.scan_forward(_laid_out(b_TBH), _laid_out(h_BH), factor, out_TBH)
        else:
            out_TBH = in_chunks(a_TBH, b_TBH, h_BH)
        ctx.save_for_backward(a_TBH, h_BH, out_TBH)
        return out_TBH

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_TBH):  # type: ignore[override]
        a_TBH, h_BH, out_TBH = ctx.saved_tensors
        tensors = (grad_TBH, a_TBH, h_BH, out_TBH)
        back = _back_by_kernel if ctx.by_kernel else _back_in_chunks
        grad_a, delta_TBH, grad_h = back(*tensors)
        return grad_a.sum_to_size(a_TBH.shape), delta_TBH, grad_h


def _takes_kernel(*tensors: Tensor) -> bool:
    """Return whether kernels compute such tensors, and not torch."""
    dtype = torch.complex64 if tensors[1].is_complex() else torch.float32
    return usable(*tensors, dtype=dtype)


def _back_by_kernel(
    grad_TBH: Tensor, a_TBH: Tensor, h_BH: Tensor, out_TBH: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    factor, h_BH = _for_kernel(a_TBH, h_BH), _laid_out(h_BH)
    grad_a, delta_TBH, grad_h = map(torch.empty_like, (factor, out_TBH, h_BH))
    recurrent.scan_backward(_laid_out(grad_TBH), out_TBH, h_BH, factor, delta_TBH, grad_h, grad_a)
    return grad_a if grad_a.dim() == 3 else grad_a[None], delta_TBH, grad_h


def _back_in_chunks(
    grad_TBH: Tensor, a_TBH: Tensor, h_BH: Tensor, out_TBH: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    conjugate_TBH = a_TBH.conj()
    # The first step back has nothing after it: its factor, any, multiplies 0.
    later_TBH = conjugate_TBH.roll(-1, 0).flip(0)
    delta_TBH = in_chunks(later_TBH, grad_TBH.flip(0), torch.zeros_like(h_BH)).flip(0)
    before_TBH = torch.cat((h_BH[None], out_TBH[:-1]))
    return before_TBH.conj() * delta_TBH, delta_TBH, conjugate_TBH[0] * delta_TBH[0]


def _for_kernel(a_TBH: Tensor, h_BH: Tensor) -> Tensor:
    """One factor for each step and row, or for each row."""
    every = a_TBH[0].expand_as(h_BH) if len(a_TBH) == 1 else a_TBH.expand(-1, *h_BH.shape)
    return _laid_out(every)


def _laid_out(x: Tensor) -> Tensor:
    return x.resolve_conj().contiguous()
