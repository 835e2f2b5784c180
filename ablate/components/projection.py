"""A linear map that draws its parameters as torch's `nn.Linear` does, each from its own stream."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.components.flow import Draw


@final
class Projection(nn.Module):
    """x W' + b, with W and b uniform in +- 1/sqrt(inputs) at the start."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def initialize(self, draw: Draw) -> None:
        bound = self.weight.shape[1] ** -0.5
        for name, parameter in self.named_parameters():
            parameter.data.uniform_(-bound, bound, generator=draw(name))
