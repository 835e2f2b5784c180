"""The tensors that a Mogrifier window saves for its backward pass."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


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
        return (len(self.values) - 2) // 2 * 2 + 1


@dataclass(frozen=True, kw_only=True)
class Slopes:
    """The gradients of the loss with respect to pre-activations, each over all steps."""

    x: Tensor
    gates: Tensor  # of the cell
    rounds: list[Tensor]
    between: list[Tensor | None]  # with respect to B_r v_r
