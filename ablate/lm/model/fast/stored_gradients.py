"""Losses whose gradients are computed in the forward pass, with the loss itself.

The backward pass only scales the stored gradients. So a loss that is a sum over tokens can be
differentiated chunk by chunk, with only one chunk's tensors in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.lm.model.fast.precision import in_full
from ablate.lm.model.fast.product import SumOfProducts

Tensors = Sequence[Any]  # each is a Tensor or None
Gradients = list[Tensor | SumOfProducts | None]
Needed = tuple[bool, ...]  # which of the tensors need a gradient
Compute = Callable[[Tensors, Needed], tuple[Tensor, Gradients]]
Part = Callable[..., Tensor]  # (rows, *tensors) -> the sum over those rows, a scalar


def with_gradients(compute: Compute, *tensors: Tensor | None) -> Tensor:
    """The loss that `compute` returns with the gradients of the tensors, computed in float32."""
    return in_full(_StoredGradients, compute, *tensors)


def summed_by_chunk(part: Part, chunks: list[slice], *tensors: Tensor | None) -> Tensor:
    """The sum of `part(rows, *tensors)` over the chunks, with the tensors' gradients."""
    if torch.compiler.is_compiling():  # which knows no gradients made in the forward pass
        called: Any = torch.compiler.disable(summed_by_chunk)
        return called(part, chunks, *tensors)
    if not torch.is_grad_enabled():
        return torch.stack([part(rows, *tensors) for rows in chunks]).sum()
    return _StoredGradients.apply(partial(_by_chunk, part, chunks), *tensors)  # type: ignore


class _StoredGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx, compute: Compute, *tensors: Tensor | None) -> Tensor:
        ctx.compute = compute
        ctx.save_for_backward(*tensors)
        loss, ctx.gradients = compute(tensors, ctx.needs_input_grad[1:])
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, *outer: Tensor):
        (scale,) = outer
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:  # differentiated before
            _, gradients = ctx.compute(ctx.saved_tensors, ctx.needs_input_grad[1:])
        # each is released before the next is scaled
        return None, *(_times(gradients.pop(0), scale) for _ in range(len(gradients)))


def _times(gradient: Tensor | SumOfProducts | None, scale: Tensor) -> Tensor | None:
    if isinstance(gradient, SumOfProducts):
        return gradient.scaled(scale)
    return None if gradient is None else gradient.mul_(scale)


def _by_chunk(
    part: Part, chunks: list[slice], tensors: Tensors, needed: Needed
) -> tuple[Tensor, Gradients]:
    """The sum over the chunks and its gradients, by plain autograd."""
    leaves = [
        None if tensor is None else tensor.detach().requires_grad_(need)
        for tensor, need in zip(tensors, needed, strict=True)
    ]
    values = []
    with torch.enable_grad():
        for rows in chunks:
            value = part(rows, *leaves)
            # At once, so that a chunk's tensors are released before the next one's are made.
            value.backward()
            values.append(value.detach())
    return torch.stack(values).sum(), [None if leaf is None else leaf.grad for leaf in leaves]
