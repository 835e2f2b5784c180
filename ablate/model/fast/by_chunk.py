"""A sum over tokens, computed chunk by chunk, with only one chunk's graph in memory at a time.

Each chunk is differentiated as soon as it is computed, in the forward pass; the backward pass only
scales the stored gradients, as in `mixture_gradient.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Part = Callable[..., Tensor]  # (rows, *tensors) -> the sum over those rows, a scalar


def summed_by_chunk(part: Part, chunks: Iterable[slice], *tensors: Tensor | None) -> Tensor:
    """The sum of `part(rows, *tensors)` over the chunks, with the tensors' gradients."""
    if not torch.is_grad_enabled():
        return torch.stack([part(rows, *tensors) for rows in chunks]).sum()
    return _ByChunk.apply(part, chunks, *tensors)  # type: ignore


class _ByChunk(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part: Part, chunks: Iterable[slice], *tensors: Tensor | None) -> Tensor:
        leaves = [
            None if tensor is None else tensor.detach().requires_grad_(needed)
            for tensor, needed in zip(tensors, ctx.needs_input_grad[2:], strict=True)
        ]
        values = []
        with torch.enable_grad():
            for rows in chunks:
                value = part(rows, *leaves)
                value.backward()
                values.append(value.detach())
        ctx.save_for_backward(*(None if leaf is None else leaf.grad for leaf in leaves))
        return torch.stack(values).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, *outer: Tensor):
        (scale,) = outer
        return None, None, *(None if g is None else g * scale for g in ctx.saved_tensors)
