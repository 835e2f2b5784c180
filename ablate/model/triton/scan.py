"""The diagonal recurrence of `fast/scan.py`, forward and backward: real or complex.

A program has the states of some units in registers and takes all steps, so that every number is
read and written once. No unit reads another one, so units of all rows lie side by side. The real
and the imaginary parts of a complex tensor alternate in memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ablate.model.triton.library import launch

BLOCK = 128  # few, for many programs: a state waits for its step, not for memory
WARPS = 4


def scan_forward(w: Tensor, before: Tensor, r: Tensor, x: Tensor) -> None:
    """Fill in x with the state after every step: w_t + r_t x_{t-1}, real or complex. r has the
    shape of w, or that of the state: one for all steps."""
    _run(_forward, r.dim() == w.dim(), 0, w, before, r, x)


def scan_backward(
    outer: Tensor,
    x: Tensor,
    before: Tensor,
    r: Tensor,
    slope: Tensor,
    d_before: Tensor,
    d_r: Tensor,
) -> None:
    """Fill in the gradients of `scan_forward`, given that of x; d_r has the shape of r."""
    last = (len(x) - 1) * before.numel()
    _run(_backward, r.dim() == x.dim(), last, outer, before, r, x, slope, d_before, d_r)


def _run(kernel, each: bool, start: int, read: Tensor, before: Tensor, *others: Tensor) -> None:
    """Start a kernel; `read` has numbers for every step, `before` for one. `start` is where in
    `read` the kernel's first step begins, and added to 64 bits."""
    units, is_complex = before.numel(), before.is_complex()
    tensors = (read, before, *others)
    parts = [torch.view_as_real(tensor) if is_complex else tensor for tensor in tensors]
    constants = {"EACH": each, "COMPLEX": is_complex, "BLOCK": BLOCK, "num_warps": WARPS}
    launch(kernel, (triton.cdiv(units, BLOCK),), *parts, len(read), units, start, **constants)


@triton.jit
def _load(x, at, inside, COMPLEX: tl.constexpr):
    """Real and imaginary parts; of real numbers, the second is not used."""
    if COMPLEX:
        real = tl.load(x + 2 * at, mask=inside, other=0.0)
        imaginary = tl.load(x + 2 * at + 1, mask=inside, other=0.0)
    else:
        real = tl.load(x + at, mask=inside, other=0.0)
        imaginary = real
    return real, imaginary


@triton.jit
def _store(x, at, inside, real, imaginary, COMPLEX: tl.constexpr):
    if COMPLEX:
        tl.store(x + 2 * at, real, mask=inside)
        tl.store(x + 2 * at + 1, imaginary, mask=inside)
    else:
        tl.store(x + at, real, mask=inside)


@triton.jit
def _times(a, a_i, x, x_i, COMPLEX: tl.constexpr):
    """The product of two numbers."""
    if COMPLEX:
        real, imaginary = a * x - a_i * x_i, a * x_i + a_i * x
    else:
        real, imaginary = a * x, x_i
    return real, imaginary


@triton.jit
def _forward(
    w, before, r, x, steps, units, start,
    EACH: tl.constexpr, COMPLEX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < units
    state, state_i = _load(before, at, inside, COMPLEX)
    keep, keep_i = _load(r, at, inside, COMPLEX)
    here = at + start
    for _ in range(steps):
        if EACH:
            keep, keep_i = _load(r, here, inside, COMPLEX)
        state, state_i = _times(keep, keep_i, state, state_i, COMPLEX)
        new, new_i = _load(w, here, inside, COMPLEX)
        state += new
        state_i += new_i
        _store(x, here, inside, state, state_i, COMPLEX)
        here += units


@triton.jit
def _backward(
    outer, before, r, x, slope, d_before, d_r, steps, units, start,
    EACH: tl.constexpr, COMPLEX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """From the last step to the first; `later` is the slope of the state after a step."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < units
    later = tl.zeros((BLOCK,), tl.float32)
    later_i, total, total_i = later, later, later
    keep, keep_i = _load(r, at, inside, COMPLEX)  # nothing is after the last step: it multiplies 0
    here = at + start
    for back in range(steps):
        later, later_i = _times(keep, -keep_i, later, later_i, COMPLEX)
        given, given_i = _load(outer, here, inside, COMPLEX)
        later += given
        later_i += given_i
        _store(slope, here, inside, later, later_i, COMPLEX)
        if back + 1 < steps:
            last, last_i = _load(x, here - units, inside, COMPLEX)
        else:
            last, last_i = _load(before, at, inside, COMPLEX)
        of_r, of_r_i = _times(last, -last_i, later, later_i, COMPLEX)
        if EACH:
            _store(d_r, here, inside, of_r, of_r_i, COMPLEX)
            keep, keep_i = _load(r, here, inside, COMPLEX)
        else:
            total += of_r
            total_i += of_r_i
        here -= units
    later, later_i = _times(keep, -keep_i, later, later_i, COMPLEX)
    _store(d_before, at, inside, later, later_i, COMPLEX)
    if not EACH:
        _store(d_r, at, inside, total, total_i, COMPLEX)
