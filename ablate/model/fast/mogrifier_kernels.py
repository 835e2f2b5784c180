"""A Mogrifier layer's window by the kernels of `ablate/model/native/mogrifier.h`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from ablate.model.native.library import pointer, run
from ablate.model.native.recurrent import packed

if TYPE_CHECKING:
    from ablate.model.fast.mogrifier_trace import Cell, Slopes, Trace


class _Structure(ctypes.Structure):
    """Numbers and addresses, with references that keep the tensors there alive."""

    def __init__(self, sizes: Sequence[int], tensors: Sequence[Tensor | None]) -> None:
        super().__init__(*sizes, *(pointer(tensor).value for tensor in tensors))
        self.tensors = tensors


def _fields(numbers: str, pointers: str) -> list[tuple[str, type]]:
    sized = [(name, ctypes.c_long) for name in numbers.split()]
    return [*sized, *((name, ctypes.c_void_p) for name in pointers.split())]


class _Round(_Structure):
    """`Round` of mogrifier.h."""

    _fields_ = _fields(
        "outputs inner inputs",
        "left right bias mask gate between result slope d_between",
    )


class _Cell(_Structure):
    """`Cell` of mogrifier.h."""

    _fields_ = _fields(
        "steps batch inputs units rounds capped",
        "weight_ih weight_hh bias mask x read_h gates h c squashed",
    )


def run_mogrifier(
    name: str,
    mask: Tensor | None,
    cell: Cell,
    trace: Trace,
    *tensors: Tensor,
    slopes: Slopes | None = None,
) -> None:
    """Run a kernel: the one forward fills in the trace, the one backward fills in the slopes, and
    moves d h and d c, which are among its tensors, back to the start of the window."""
    whole = _cell(mask, cell, trace, back=slopes is not None)
    rounds = [_round(number, cell, trace, slopes) for number in range(len(cell.rounds))]
    listed = (_Round * len(rounds))(*rounds)
    run(name, whole.batch, ctypes.byref(whole), ctypes.byref(listed), *tensors)


def _cell(mask: Tensor | None, cell: Cell, trace: Trace, *, back: bool) -> _Cell:
    units = cell.weight_hh.shape[1]
    matrices = (packed([weight], back=back) for weight in (cell.weight_ih, cell.weight_hh))
    filled = (trace.cell_TBD, trace.outputs, trace.cells, trace.squashed_TBH)
    tensors = (*matrices, cell.bias, mask, *trace.values[:2], *filled)
    sizes = (*trace.values[0].shape, units, len(cell.rounds), int(cell.capped))
    return _Cell(sizes, tensors)


def _round(number: int, cell: Cell, trace: Trace, slopes: Slopes | None) -> _Round:
    one, back = cell.rounds[number], slopes is not None
    outputs, inner = one.left.shape
    inputs = inner if one.right is None else one.right.shape[1]
    left = packed([one.left], back=back)
    right = None if one.right is None else packed([one.right], back=back)
    filled = (trace.gates[number], trace.between[number], trace.values[number + 2])
    steep = (None, None) if slopes is None else (slopes.rounds[number], slopes.between[number])
    return _Round((outputs, inner, inputs), (left, right, one.bias, one.mask, *filled, *steep))
