"""A linear map initialized like torch's `nn.Linear`, but each parameter from its own stream."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.model.flow import Draw
from ablate.lm.model.width import first_range


@final
class Projection(nn.Module):
    """x W' + b, with W and b initially uniform in +- 1/sqrt(inputs), or as muP has it."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return x W' + b."""
        return F.linear(x, self.weight, self.bias)

    def initialize(self, draw: Draw) -> None:
        """Draw both parameters uniformly."""
        for name, parameter in self.named_parameters():
            bound = first_range(parameter, None, self.weight.shape[1])
            parameter.data.uniform_(-bound, bound, generator=draw(name))
