"""The output matrix of a head: its own, or the word vectors (tied)."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from ablate.components.flow import Draw


@final
class Decoder(nn.Module):
    """A matrix uniform in +- `initial_range` unless it is tied, and a bias in +- `bias_range`."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        tied: bool,
        bias: bool,
        initial_range: float,
        bias_range: float,
    ) -> None:
        super().__init__()
        self.weight = None if tied else nn.Parameter(torch.empty(vocabulary, width))
        self.bias = nn.Parameter(torch.empty(vocabulary)) if bias else None
        self.initial_range = initial_range
        self.bias_range = bias_range

    def matrix(self, embedding_VE: Tensor) -> Tensor:
        return embedding_VE if self.weight is None else self.weight

    def initialize(self, draw: Draw) -> None:
        ranges = {"weight": self.initial_range, "bias": self.bias_range}
        for name, parameter in self.named_parameters():
            bound = ranges[name]
            parameter.data.uniform_(-bound, bound, generator=draw(name))
