"""Compile every kernel for a GPU that need not be there: python -m tests.model.triton.compiled

The public functions are called as on a GPU, with tensors of the types, alignment and sizes that
Triton specializes a kernel for; only the launch is left out. Prints a line for each kernel.
"""

from __future__ import annotations

from types import SimpleNamespace
from unittest import mock

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from ablate.model.fast.mogrifier_window import empty_slopes, empty_trace
from ablate.model.triton import augmented, highway, lstm, mogrifier, scan, softmax
from tests.support.mogrifier_cells import random_cell

CAPABILITY = 80  # A100 and newer; the first one with bfloat16


def compile_all() -> None:
    target = GPUTarget("cuda", CAPABILITY, 32)
    driver.set_active(  # type: ignore[arg-type]
        SimpleNamespace(
            get_current_target=lambda: target,
            get_current_device=lambda: 0,
            get_current_stream=lambda _: 0,
        )
    )
    for module in (softmax, augmented, scan, lstm, highway, mogrifier):
        mock.patch.object(module, "launch", compiled).start()
    _softmax()
    _augmented()
    _scan()
    _lstm()
    _highway()
    _mogrifier()


def compiled(kernel, grid, *arguments, **constants) -> None:
    made = kernel.warmup(*arguments, grid=grid, **constants, enable_fp_fusion=True)
    print(f"{kernel.__module__}.{kernel.__name__}", len(made.asm["cubin"]))


def _softmax() -> None:
    num_tokens, num_experts, num_words = 2, 3, 5000
    scores, bias = (
        torch.zeros(num_tokens * num_experts, num_words).bfloat16(),
        torch.zeros(num_words),
    )
    targets, gate = torch.zeros(num_tokens, dtype=torch.long), torch.ones(num_tokens, num_words)
    for read in ((None, None, None), (bias, gate, 30.0)):
        sums = softmax.row_sums(scores, *read, targets)
        softmax.slopes_(scores, *read, targets, *sums[:2], sums[1])


def _augmented() -> None:
    scores, soft = torch.zeros(3, 5000).bfloat16(), torch.zeros(2, 5000)
    targets, bias, numbers = torch.zeros(3, dtype=torch.long), torch.zeros(5000), (2.0, 1.0, 3.0)
    negative = augmented.soft_targets_(soft.clone(), 0.5, soft)
    augmented.augmented_(scores, bias, targets, soft, targets, negative, numbers, bias)


def _scan() -> None:
    """Real with one factor for all steps, and complex with one each."""
    for dtype, each in ((torch.float32, False), (torch.complex64, True)):
        states, before = torch.zeros(5, 3, 70, dtype=dtype), torch.zeros(3, 70, dtype=dtype)
        factor = states if each else before
        scan.scan_forward(states, before, factor, states)
        scan.scan_backward(states, states, before, factor, states, before, factor)


def _lstm() -> None:
    gates, state = torch.zeros(2, 3, 4 * 150), torch.zeros(3, 3, 150)
    for mask in (None, torch.ones(4, 3, 150)):
        weight = torch.zeros(4 * 150, 150)
        lstm.window(gates, state, state.clone(), state[:2].clone(), weight, mask)
        saved = (gates, state, state, state[1:])
        lstm.window_back(saved, state[1:], state[0], weight, mask)


def _highway() -> None:
    """Two micro-steps in each of two steps: the last has no next one to mask the state for."""
    first, states = torch.zeros(2, 3, 2 * 150), torch.zeros(5, 3, 150)
    weights, gates = [torch.zeros(2 * 150, 150)] * 2, torch.zeros(2, 2, 3, 2 * 150)
    for mask in (None, torch.ones(2, 3, 150)):
        read = states[None, :-1] if mask is None else torch.zeros(2, 4, 3, 150)
        highway.window(first, mask, weights, [torch.zeros(2 * 150)], states, read, gates)
        slopes = (states[0].clone(), gates.clone())
        highway.window_back(states[1:3], mask, weights, states, gates, *slopes)


def _mogrifier() -> None:
    """A capped gate and a mask together: the LSTM's kernels are compiled without a cap above."""
    cell = random_cell(torch.zeros, (2, 3, 70, 150), 2, 40, masked=True, capped=True)
    for mask in (None, torch.ones(3, 150)):
        x, state = torch.zeros(2, 3, 70), torch.zeros(3, 150)
        trace = empty_trace(x, state, state, mask, cell)
        mogrifier.window(mask, cell, trace)
        slopes = (state.clone(), mask, cell, trace, empty_slopes(trace, cell))
        mogrifier.window_back(torch.zeros(2, 3, 150), *slopes)


if __name__ == "__main__":
    compile_all()
