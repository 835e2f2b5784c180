"""The tensors that a Mogrifier window saves for its backward pass, and the kernels that fill them
in (`ablate/lm/model/native/mogrifier.h`)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ablate.lm.model.native.library import pointer, run
from ablate.lm.model.native.recurrent import packed


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round: the matrices that read one vector to gate the other."""

    left: Tensor  # A, or the undivided matrix
    right: Tensor | None  # B; None: not factorized
    bias: Tensor
    mask: Tensor | None  # on what `left` reads


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A layer's parameters, as one window uses them."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor
    rounds: tuple[Round, ...]
    capped: bool


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The saved tensors of a window, each over all steps."""

    values: list[Tensor]  # v_0, v_1, ..., as in `mogrifier_window.py`
    gates: list[Tensor]  # g_r of each round; the factor is 2 g_r
    between: list[Tensor | None]  # input of a round's left matrix, if it is not v_r
    cell_TBD: Tensor  # sigmoid and tanh of the cell's gates
    outputs: Tensor  # [T + 1, B, H]: h before the first step, and after each step
    cells: Tensor  # c, in the same way
    squashed_TBH: Tensor  # tanh(c)

    @property
    def last_x(self) -> int:
        """The number of the last value that is an x."""
        return (len(self.values) - 1) // 2 * 2

    @property
    def last_h(self) -> int:
        """The number of the last value that is an h."""
        return (len(self.values) - 2) // 2 * 2 + 1


@dataclass(frozen=True, kw_only=True)
class Slopes:
    """The gradients of the loss with respect to pre-activations, each over all steps."""

    x: Tensor
    gates: Tensor  # of the cell
    rounds: list[Tensor]
    between: list[Tensor | None]  # with respect to B_r v_r


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
