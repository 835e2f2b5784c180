"""The input-to-output gate that sees the hidden state, too (Takase et al. 2017, Eq. 10).

    g = sigmoid(W'_g [h; e] + b_g)

with e as in `iog.py` and h what the head reads. The paper counts 0.8 million parameters more
for it, where the formula has V times the units of h (8.9 million).
"""

from __future__ import annotations

from typing import final

import torch

from ablate.components.flow import Draw, Features, GateSignal, Shapes, State
from ablate.components.gate import Gate
from ablate.components.gate.iog import GateMatrix, IogConfig, WordVectors
from ablate.components.regularizer import Masks
from ablate.registry import register


@register(
    "gate",
    "iog_hidden",
    config=IogConfig,
    paper="takase2017iog",
    equation="Eq. 10",
    departures=("implements the formula, whose size is not the one the paper prints",),
)
@final
class IogHidden(Gate):
    """Depends on the input word and on the output of the backbone or bridge."""

    def __init__(self, config: IogConfig, shapes: Shapes) -> None:
        super().__init__()
        width = shapes.output + config.units
        self.embedding = WordVectors(config, shapes.vocabulary)
        self.output = GateMatrix(shapes.vocabulary, width, config.initial_range)

    def forward(self, features: Features, state: State, masks: Masks) -> tuple[GateSignal, State]:
        own_TBG = self.embedding(features.ids_TB, masks)
        return self.output(torch.cat([features.output_TBH, own_TBG], -1)), ()

    def initialize(self, draw: Draw) -> None:
        """The parts draw their own."""
