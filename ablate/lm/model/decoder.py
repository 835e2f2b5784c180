"""The output matrix of a head: a matrix of its own, or the word vectors (tied)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ablate.config.fields import setting
from ablate.lm.model.flow import Draw

TIED = "use the word vectors as the output matrix"


@dataclass(frozen=True, kw_only=True)
class OutputConfig:
    """The output matrix and its bias, shared by the configs of all heads."""

    tied: bool = setting(False, doc=TIED)
    bias: bool = setting(True, doc="one bias per word")
    initial_range: float = setting(
        0.1, doc="an untied output matrix starts uniform in +- this", low=0
    )
    bias_range: float = setting(
        0.0, doc="the words' biases start uniform in +- this; 0: at 0", low=0
    )
    logit_cap: float | None = setting(
        None,
        doc="soft cap of the logits, cap tanh(logit / cap), such as 30; none: no cap",
        low=1e-3,
    )


@dataclass(frozen=True, kw_only=True)
class MixtureOutputConfig(OutputConfig):
    """The output matrix that the experts of a mixture share."""

    tied: bool = setting(True, doc=TIED)
    floor: float = setting(
        0.0, doc="added to every probability; the public code adds 1e-8, also in evaluation", low=0
    )


@final
class Decoder(nn.Module):
    """A matrix uniform in +- `initial_range` unless it is tied, and a bias in +- `bias_range`."""

    def __init__(self, vocabulary: int, width: int, config: OutputConfig) -> None:
        super().__init__()
        self.weight = None if config.tied else nn.Parameter(torch.empty(vocabulary, width))
        self.bias = nn.Parameter(torch.empty(vocabulary)) if config.bias else None
        self.logit_cap = config.logit_cap
        self.ranges = {"weight": config.initial_range, "bias": config.bias_range}

    def matrix(self, embedding_VE: Tensor) -> Tensor:
        """Return the output matrix: its own, or the word vectors if tied."""
        return embedding_VE if self.weight is None else self.weight

    def initialize(self, draw: Draw) -> None:
        """Draw every parameter within its range."""
        for name, parameter in self.named_parameters():
            bound = self.ranges[name]
            parameter.data.uniform_(-bound, bound, generator=draw(name))
