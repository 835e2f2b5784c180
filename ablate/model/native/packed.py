"""Matrices laid out for products with few rows, as `packed.h` reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from torch import Tensor

from ablate.model.native.library import library, pointer


def packed(weights: Sequence[Tensor], shares: int = 1, *, back: bool = False) -> Tensor:
    """Pack matrices [D, I], each with its rows split into shares, one after the other: for products
    x W', or for the gradients that go back, d W."""
    kernels = library()
    if kernels is None:
        raise RuntimeError("kernels were requested, but there is no library")
    parts = [part.contiguous() for weight in weights for part in weight.chunk(shares)]
    shapes = [part.shape if back else part.shape[::-1] for part in parts]
    sizes = [kernels.packed_numbers(*map(ctypes.c_long, shape)) for shape in shapes]
    room = weights[0].new_empty(sum(sizes))
    for part, shape, into in zip(parts, shapes, room.split(sizes), strict=True):
        steps = part.stride() if back else part.stride()[::-1]
        kernels.pack_matrix(
            *map(ctypes.c_long, shape), pointer(part), *map(ctypes.c_long, steps), pointer(into)
        )
    return room
