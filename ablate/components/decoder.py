"""The output matrix of a head: its own, or the word vectors (tied)."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from ablate.components.flow import Draw


@final
class Decoder(nn.Module):
    """A matrix uniform in +- `initial_range` unless it is tied, and a bias that starts at 0."""

    def __init__(
        self, vocabulary: int, width: int, *, tied: bool, bias: bool, initial_range: float
    ) -> None:
        super().__init__()
        self.weight = None if tied else nn.Parameter(torch.empty(vocabulary, width))
        self.bias = nn.Parameter(torch.empty(vocabulary)) if bias else None
        self.initial_range = initial_range

    def matrix(self, embedding_VE: Tensor) -> Tensor:
        return embedding_VE if self.weight is None else self.weight

    def initialize(self, draw: Draw) -> None:
        bound = self.initial_range
        if self.weight is not None:
            self.weight.data.uniform_(-bound, bound, generator=draw("weight"))
        if self.bias is not None:
            self.bias.data.zero_()
