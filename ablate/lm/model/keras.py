"""Keras' default initializations, which models written in Keras started from.

    a kernel [I, O]      uniform in +- sqrt(6 / (I + O))    (Glorot & Bengio 2010)
    a recurrent kernel   orthogonal                         (Saxe et al. 2014)
    a bias               0, but 1 for an LSTM's forget gate (Jozefowicz et al. 2015)

An LSTM's kernel has its four gates side by side; its fans are those of the whole kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ablate.errors import CombinationError

INITIALIZATIONS = ("uniform", "keras")
GATES = 4  # of an LSTM, in the order i, f, g, o, as in torch and Keras


def check_initialization(initialization: str, initial_range: float | None, slot: str) -> None:
    """Refuse an initial range that would not be used."""
    if initialization != "uniform" and initial_range is not None:
        raise CombinationError(
            f"{slot}.initial_range = {initial_range:g} is the range for {slot}.initialization = "
            f"'uniform'; with '{initialization}' the range depends on a matrix's size. Instead: "
            "leave the range out, or choose 'uniform'."
        )


def glorot(weight: Tensor, generator: torch.Generator, fans: int | None = None) -> None:
    """Fill a kernel. `fans`: inputs plus outputs of the larger kernel that it is a part of."""
    bound = (6 / (sum(weight.shape) if fans is None else fans)) ** 0.5
    weight.uniform_(-bound, bound, generator=generator)


def orthogonal(weight_DH: Tensor, generator: torch.Generator) -> None:
    """Fill a recurrent matrix: its H columns, rows of Keras' kernel, are orthonormal."""
    normal_DH = torch.empty_like(weight_DH).normal_(generator=generator)
    basis_DH, upper_HH = torch.linalg.qr(normal_DH)
    weight_DH.copy_(basis_DH * upper_HH.diagonal().sign())  # qr's own signs are not uniform


def lstm_parameter(name: str, parameter: Tensor, generator: torch.Generator) -> None:
    """Fill a parameter of an LSTM layer, identified by torch's name for it."""
    if name.startswith("weight_hh"):
        orthogonal(parameter, generator)
    elif "bias" not in name:
        glorot(parameter, generator)
    else:
        parameter.zero_()
        if name.startswith("bias_ih"):
            parameter.chunk(GATES)[1].fill_(1)
