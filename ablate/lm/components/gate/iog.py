"""The input-to-output gate (Takase et al. 2017, Eq. 6-8).

    g = sigmoid(W_g e + b_g),   e = E_g[x],   P = softmax(g * s)

with x the word just read, e its vector in the gate's own embedding, and s the logits with their
bias. In a mixture the gate scales the logits of every expert.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ablate.config.fields import setting
from ablate.lm.components import Draw, Features, Gate, GateSignal, Masks, Shapes, State, register
from ablate.lm.model.language_model import Embedding


@dataclass(frozen=True, kw_only=True)
class IogConfig:
    """The gate's own word vectors."""

    units: int = setting(300, doc="size of the gate's word vectors", low=1)
    dropout: float = setting(
        0.5, doc="dropout rate on those vectors, drawn per token and element", low=0, high=0.99
    )
    initial_range: float = setting(0.1, doc="matrices start uniform in +- this, biases at 0", low=0)


class GateMatrix(nn.Module):
    """W_g and b_g: from the gate's vectors to one gate per word."""

    def __init__(self, vocabulary: int, width: int, initial_range: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        self.bias = nn.Parameter(torch.empty(vocabulary))
        self.initial_range = initial_range
        self.by_word = self.weight.numel()

    def forward(self, vectors_TBG: Tensor) -> GateSignal:
        """Return the gate at every token, as the factors of W_g e + b_g."""
        return GateSignal(
            vectors_NG=vectors_TBG.flatten(0, 1), weight_VG=self.weight, bias_V=self.bias
        )

    def initialize(self, draw: Draw) -> None:
        """Draw the matrix; the bias starts at 0."""
        self.weight.data.uniform_(-self.initial_range, self.initial_range, generator=draw("weight"))
        self.bias.data.zero_()


@register(
    "gate",
    "iog",
    config=IogConfig,
    paper="takase2017iog",
    equation="Eq. 6-8",
    departures=(
        "the paper names no initial weights; matrices start uniform and biases at 0, so every gate "
        "starts near 1/2",
        "the paper prints only the dropout rate; here dropout acts on the gate's word vector e, "
        "independently for each element and token",
    ),
)
@final
class Iog(Gate):
    """Depends on the input word only; (2 units + 1) V parameters."""

    def __init__(self, config: IogConfig, shapes: Shapes) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.embedding = Embedding(shapes.vocabulary, config.units, config.initial_range)
        self.output = GateMatrix(shapes.vocabulary, config.units, config.initial_range)

    def forward(self, features: Features, state: State, masks: Masks) -> tuple[GateSignal, State]:
        e_TBG = masks.dropout("gate", self.embedding(features.ids_TB), self.dropout)
        return self.output(e_TBG), ()
