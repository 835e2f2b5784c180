"""Functions of numbers that Triton's language lacks."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tanh(x):
    """By its series close to 0, where the other formula subtracts two numbers that are alike."""
    square = x * x
    near = x * (1 - square * (1.0 / 3 - square * (2.0 / 15)))
    return tl.where(tl.abs(x) < 0.1, near, 2 * tl.sigmoid(2 * x) - 1)
