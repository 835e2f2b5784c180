"""A Mogrifier layer's window by the kernels of `ablate/model/native/mogrifier.h`."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from torch import Tensor

from ablate.model.native.library import library, over_rows, pointer
from ablate.model.native.packed import packed

if TYPE_CHECKING:
    from ablate.model.fast.mogrifier_trace import Cell, Slopes, Trace


def _fields(numbers: str, pointers: str) -> list[tuple[str, type]]:
    sized = [(name, ctypes.c_long) for name in numbers.split()]
    return [*sized, *((name, ctypes.c_void_p) for name in pointers.split())]


class _Round(ctypes.Structure):
    """`Round` of mogrifier.h."""

    _fields_ = _fields(
        "outputs inner inputs",
        "left right bias mask gate between result slope d_between",
    )


class _Cell(ctypes.Structure):
    """`Cell` of mogrifier.h."""

    _fields_ = _fields(
        "steps batch inputs units rounds capped",
        "weight_ih weight_hh bias mask x read_h gates h c squashed",
    )


class _Call:
    """Structures of pointers, with references that keep the tensors they point to alive."""

    def __init__(self, mask: Tensor | None, cell: Cell, trace: Trace) -> None:
        self._kept: list[Tensor] = []
        self._mask, self._cell, self._trace = mask, cell, trace

    def run(self, name: str, *arguments: Tensor, back: bool, slopes: Slopes | None = None) -> None:
        rounds = (_Round * len(self._cell.rounds))(*self._rounds(back, slopes))
        cell = self._whole(back)
        places = [ctypes.c_void_p(self._at(x)) for x in arguments]
        given = (ctypes.byref(cell), ctypes.byref(rounds), *places)
        over_rows(getattr(library(), name), self._trace.values[0].shape[1], *given)

    def _whole(self, back: bool) -> _Cell:
        cell, trace = self._cell, self._trace
        steps, batch, inputs = trace.values[0].shape
        units = cell.weight_hh.shape[1]
        matrices = (packed([weight], back=back) for weight in (cell.weight_ih, cell.weight_hh))
        filled = (trace.cell_TBD, trace.outputs, trace.cells, trace.squashed_TBH)
        tensors = (*matrices, cell.bias, self._mask, *trace.values[:2], *filled)
        sizes = (steps, batch, inputs, units, len(cell.rounds), int(cell.capped))
        return _Cell(*sizes, *map(self._at, tensors))

    def _rounds(self, back: bool, slopes: Slopes | None) -> list[_Round]:
        found, trace = [], self._trace
        for number, one in enumerate(self._cell.rounds):
            outputs, inner = one.left.shape
            inputs = inner if one.right is None else one.right.shape[1]
            left = packed([one.left], back=back)
            right = None if one.right is None else packed([one.right], back=back)
            filled = (trace.gates[number], trace.between[number], trace.values[number + 2])
            slope = (None, None)
            if slopes is not None:
                slope = slopes.rounds[number], slopes.between[number]
            tensors = (left, right, one.bias, one.mask, *filled, *slope)
            found.append(_Round(outputs, inner, inputs, *map(self._at, tensors)))
        return found

    def _at(self, tensor: Tensor | None) -> int | None:
        if tensor is not None:
            self._kept.append(tensor)
        return pointer(tensor).value


def mogrifier_forward(mask: Tensor | None, cell: Cell, trace: Trace) -> None:
    """Fill in the trace."""
    _Call(mask, cell, trace).run("mogrifier_forward", back=False)


def mogrifier_backward(
    given: Tensor,
    dh: Tensor,
    dc: Tensor,
    mask: Tensor | None,
    cell: Cell,
    trace: Trace,
    slopes: Slopes,
) -> None:
    """Fill in the slopes, and move d h and d c back to the start of the window."""
    call = _Call(mask, cell, trace)
    arguments = (given, dh, dc, slopes.gates, slopes.x)
    call.run("mogrifier_backward", *arguments, back=True, slopes=slopes)
