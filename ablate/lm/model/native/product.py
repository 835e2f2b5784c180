"""Products of large matrices by the kernel of `product.h`."""

from __future__ import annotations

import ctypes

from torch import Tensor

from ablate.lm.model.native.library import run

FEWEST_ROWS = 32  # with fewer rows, packing the other matrix costs more than it saves
PANEL = 32  # `start` is padded to a multiple of the widest panel of any processor
THREAD_ROWS = 64  # the fewest rows that are worth a thread


def multiply(
    a_MK: Tensor, b_KN: Tensor, bias_N: Tensor | None = None, out_MN: Tensor | None = None
) -> Tensor:
    """A B + bias, in the caller's buffer if given."""
    num_rows, num_columns = a_MK.shape[0], b_KN.shape[1]
    start = a_MK.new_zeros(-(-num_columns // PANEL) * PANEL)
    if bias_N is not None:
        start[:num_columns] = bias_N
    c_MN = a_MK.new_empty(num_rows, num_columns) if out_MN is None else out_MN
    _multiply(a_MK, b_KN, start, c_MN)
    return c_MN


def add_product_(c_MN: Tensor, a_MK: Tensor, b_KN: Tensor) -> None:
    """C += A B, in place."""
    _multiply(a_MK, b_KN, None, c_MN)


def _multiply(a: Tensor, b: Tensor, start: Tensor | None, c: Tensor) -> None:
    a, b = (x if 1 in x.stride() else x.contiguous() for x in (a, b))
    left, right, result = (ctypes.c_void_p(x.data_ptr()) for x in (a, b, c))  # of any strides
    arguments = (left, *a.stride(), right, *b.stride(), start, result, c.stride(0))
    run("multiply", len(c), a.shape[1], b.shape[1], *arguments, least=THREAD_ROWS)
