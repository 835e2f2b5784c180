"""A recurrence by chunks is the same recurrence step by step, and costs what it says."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from ablate.lm.components.backbone._stream import in_chunks

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def flat(state) -> list[torch.Tensor]:
    return [state] if isinstance(state, torch.Tensor) else [*state]


def results(outputs, state, inputs) -> list[torch.Tensor]:
    """Outputs, last states, and the gradients to the inputs by all of them."""
    every = [outputs, *flat(state)]
    weights = torch.Generator().manual_seed(7)
    drawn = (torch.randn(x.shape, generator=weights, dtype=x.dtype) for x in every)
    loss = sum((x * w).sum() for x, w in zip(every, drawn, strict=True))
    return [*every, *torch.autograd.grad(loss, inputs)]


def assert_chunks_are_steps(chunk, steps, inputs, state, size: int) -> None:
    """In float64: values and gradients, also those to the state before the window."""
    every = [*inputs, *flat(state)]
    by_chunks = results(*in_chunks(chunk, size, inputs, state), every)
    by_steps = results(*steps(*inputs, state), every)
    assert all(torch.isfinite(x).all() for x in by_chunks)
    for one, other in zip(by_chunks, by_steps, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def counted(chunk, size: int, inputs, state) -> float:
    """The operations of matrix products for each token and head, as torch counts them."""
    with torch.no_grad(), FlopCounterMode(display=False) as count:
        in_chunks(chunk, size, inputs, state)
    return count.get_total_flops() / inputs[0].shape[:3].numel()
