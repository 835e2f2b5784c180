"""Initial values with a variance of about 1 / inputs, as in the code of Melis et al. (lamb).

    a matrix            normal, of standard deviation sqrt(1.3 / inputs), cut off at two of them
    a bias              the same, with its length as the number of inputs; the forget gate's: plus 1
    Mogrifier's rounds  biases 0; both factors of rank k: standard deviation (inputs k)^(-1/4)

1.3 makes up for the cut, so that the variance is about 1 / inputs; that of the product of two
factors is about 1 / inputs too. Open: whether the code counts the inputs of the input matrix and of
the recurrent matrix together. Here each has its own, and a gate's bias has a length of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ablate.lm.model.keras import GATES

CORRECTION = 1.3  # 1 / 0.774, the variance of a standard normal cut off at 2, rounded


def truncated_normal(weight: Tensor, deviation: float, generator: torch.Generator) -> None:
    """Fill with a normal distribution that is cut off at two standard deviations."""
    bound = 2 * deviation
    nn.init.trunc_normal_(weight, std=deviation, a=-bound, b=bound, generator=generator)


def lstm_parameter(name: str, parameter: Tensor, generator: torch.Generator) -> None:
    """Fill a parameter of an LSTM layer, identified by torch's name for it."""
    is_bias = "bias" in name
    inputs = parameter.shape[0] // GATES if is_bias else parameter.shape[1]
    truncated_normal(parameter, (CORRECTION / inputs) ** 0.5, generator)
    if name.startswith("bias_ih"):
        parameter.chunk(GATES)[1].add_(1)


def factor(parameter: Tensor, inputs: int, rank: int, generator: torch.Generator) -> None:
    """Fill one of the two factors, of `rank`, of a matrix with that many inputs."""
    truncated_normal(parameter, (inputs * rank) ** -0.25, generator)
