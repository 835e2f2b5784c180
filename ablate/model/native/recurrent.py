"""Windows of recurrences, by the kernels of `scan.h`, `lstm.h` and `highway.h`.

Each fills in tensors that the caller allocates; shapes as in the backbones' own files.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from torch import Tensor

from ablate.model.native.library import library, over_rows, pointer
from ablate.model.native.packed import packed

SCAN_UNITS = 4096  # the fewest units that are worth a thread


def scan_forward(w: Tensor, before: Tensor, r: Tensor, x: Tensor) -> None:
    units = before.numel()
    _run("scan_forward", units, (len(w), units), (w, before, r, x), SCAN_UNITS)


def scan_backward(
    given: Tensor,
    x: Tensor,
    before: Tensor,
    r: Tensor,
    slope: Tensor,
    d_before: Tensor,
    d_r: Tensor,
) -> None:
    units = before.numel()
    tensors = (given, x, before, r, slope, d_before, d_r)
    _run("scan_backward", units, (len(x), units), tensors, SCAN_UNITS)


def lstm_forward(
    weight: Tensor, masks: Tensor | None, gates: Tensor, h: Tensor, c: Tensor, squashed: Tensor
) -> None:
    masks, shares = _by_share(masks)
    tensors = (packed([weight], shares), masks, gates, h, c, squashed)
    _run("lstm_forward", squashed.shape[1], (*squashed.shape, shares), tensors)


def lstm_backward(
    weight: Tensor,
    masks: Tensor | None,
    gates: Tensor,
    c: Tensor,
    squashed: Tensor,
    given: Tensor,
    dh: Tensor,
    dc: Tensor,
    slopes: Tensor,
) -> None:
    masks, shares = _by_share(masks)
    matrix = packed([weight], shares, back=True)
    tensors = (matrix, masks, gates, c, squashed, given, dh, dc, slopes)
    _run("lstm_backward", squashed.shape[1], (*squashed.shape, shares), tensors)


def highway_forward(
    weights: Sequence[Tensor],
    masks: Tensor | None,
    first: Tensor,
    biases: Tensor | None,
    states: Tensor,
    reads: Tensor | None,
    gates: Tensor,
) -> None:
    masks, shares = _by_share(masks)
    tensors = (packed(weights, shares), biases, masks, first, states, reads, gates)
    _run("highway_forward", gates.shape[2], _highway_sizes(gates, shares), tensors)


def highway_backward(
    weights: Sequence[Tensor],
    masks: Tensor | None,
    states: Tensor,
    gates: Tensor,
    given: Tensor,
    d: Tensor,
    slopes: Tensor,
) -> None:
    masks, shares = _by_share(masks)
    tensors = (packed(weights, shares, back=True), masks, states, gates, given, d, slopes)
    _run("highway_backward", gates.shape[2], _highway_sizes(gates, shares), tensors)


def _by_share(masks: Tensor | None) -> tuple[Tensor | None, int]:
    return (None, 1) if masks is None else (masks.contiguous(), len(masks))


def _highway_sizes(gates_LTBD: Tensor, shares: int) -> tuple[int, ...]:
    """Steps, rows, units, depth and shares."""
    depth, steps, batch, outputs = gates_LTBD.shape
    return steps, batch, outputs // 2, depth, shares


def _run(
    name: str,
    num_rows: int,
    sizes: Sequence[int],
    tensors: Sequence[Tensor | None],
    least: int = 1,
) -> None:
    """Run a kernel; this function's references keep the tensors alive during the call."""
    kernel = getattr(library(), name)
    over_rows(kernel, num_rows, *map(ctypes.c_long, sizes), *map(pointer, tensors), least=least)
