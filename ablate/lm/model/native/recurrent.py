"""Windows of recurrences, by the kernels of `scan.h`, `lstm.h` and `highway.h`.

Each fills in tensors that the caller allocates; shapes as in the backbones' own files.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from torch import Tensor

from ablate.lm.model.native.library import library, pointer, run

SCAN_UNITS = 4096  # the fewest units that are worth a thread


def run_window(
    name: str,
    weights: Sequence[Tensor],
    mask_SBH: Tensor | None,
    sizes: Sequence[int],
    *tensors: Tensor | None,
    back: bool = False,
) -> None:
    """Run a kernel whose recurrent matrices read the state under a mask for each share of their
    rows; `sizes` starts with the number of steps and of rows."""
    mask_SBH = None if mask_SBH is None else mask_SBH.contiguous()
    shares = 1 if mask_SBH is None else len(mask_SBH)
    matrices = packed(weights, shares, back=back)
    run(name, sizes[1], *sizes, shares, matrices, mask_SBH, *tensors)


def packed(weights: Sequence[Tensor], shares: int = 1, *, back: bool = False) -> Tensor:
    """Lay out matrices [D, I] for products with few rows, as `packed.h` reads them, each with its
    rows split into shares, one after the other: for x W', or for the gradients that go back, d W.
    """
    kernels = library()
    if kernels is None:
        raise RuntimeError("kernels were requested, but there is no library")
    parts = [part.contiguous() for weight in weights for part in weight.chunk(shares)]
    shapes = [part.shape if back else part.shape[::-1] for part in parts]
    sizes = [kernels.packed_numbers(*map(ctypes.c_long, shape)) for shape in shapes]
    out = weights[0].new_empty(sum(sizes))
    for part, shape, into in zip(parts, shapes, out.split(sizes), strict=True):
        steps = part.stride() if back else part.stride()[::-1]
        kernels.pack_matrix(
            *map(ctypes.c_long, shape), pointer(part), *map(ctypes.c_long, steps), pointer(into)
        )
    return out


def scan_forward(w: Tensor, before: Tensor, r: Tensor, x: Tensor) -> None:
    """Fill in x with the state after every step: w_t + r_t x_{t-1}, real or complex. r has the
    shape of w, or that of the state: one for all steps."""
    units, each = before.numel(), int(r.dim() == w.dim())
    # No unit reads another one, so threads share the units of all rows.
    name = "complex_scan_forward" if w.is_complex() else "scan_forward"
    run(name, units, len(w), units, each, w, before, r, x, least=SCAN_UNITS)


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
    units, each = before.numel(), int(r.dim() == x.dim())
    tensors = (outer, x, before, r, slope, d_before, d_r)
    name = "complex_scan_backward" if x.is_complex() else "scan_backward"
    run(name, units, len(x), units, each, *tensors, least=SCAN_UNITS)
