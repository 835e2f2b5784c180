"""How Keras starts its layers, by default: what models written in it began from.

    a kernel [I, O]      uniform in +- sqrt(6 / (I + O))    (Glorot & Bengio 2010)
    a recurrent kernel   orthogonal                         (Saxe et al. 2014)
    a bias               0, but 1 for an LSTM's forget gate (Jozefowicz et al. 2015)

An LSTM's kernels are those of its four gates side by side, and so are its fans.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ablate.errors import CombinationError

INITIALIZATIONS = ("uniform", "keras")
GATES = 4  # of an LSTM, in the order i, f, g, o: torch's and Keras' alike


def check_initialization(initialization: str, initial_range: float | None, slot: str) -> None:
    """Refuse a range that nothing would be drawn from."""
    if initialization == "keras" and initial_range is not None:
        raise CombinationError(
            f"{slot}.initial_range = {initial_range:g} is the range of {slot}.initialization = "
            f"'uniform', and 'keras' takes its own from a matrix's size. Leave the range out, or "
            f"choose 'uniform'."
        )


def glorot(weight: Tensor, generator: torch.Generator, fans: int | None = None) -> None:
    """Fill a kernel. `fans`: its inputs and outputs, where it is part of a larger one."""
    bound = (6 / (sum(weight.shape) if fans is None else fans)) ** 0.5
    weight.uniform_(-bound, bound, generator=generator)


def orthogonal(weight_DH: Tensor, generator: torch.Generator) -> None:
    """Fill a recurrent matrix: its H columns, rows of Keras' kernel, are orthonormal."""
    normal_DH = torch.empty_like(weight_DH).normal_(generator=generator)
    basis_DH, upper_HH = torch.linalg.qr(normal_DH)
    weight_DH.copy_(basis_DH * upper_HH.diagonal().sign())  # else qr's own signs, which favour some


def lstm_parameter(name: str, parameter: Tensor, generator: torch.Generator) -> None:
    """Fill a parameter of an LSTM's layer, told by torch's name for it."""
    if name.startswith("weight_hh"):
        orthogonal(parameter, generator)
    elif "bias" not in name:
        glorot(parameter, generator)
    else:
        parameter.zero_()
        if name.startswith("bias_ih"):
            parameter.chunk(GATES)[1].fill_(1)
