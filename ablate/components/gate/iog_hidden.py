"""The input-to-output gate that also reads the hidden state (Takase et al. 2017, Eq. 10).

    g = sigmoid(W'_g [h; e] + b_g)

with e as in `iog.py` and h the head's input. The paper counts 0.8 million more parameters for it;
the formula has V times the units of h (8.9 million).
"""

from __future__ import annotations

from typing import final

import torch

from ablate.components.gate.iog import GateMatrix, IogConfig, WordVectors
from ablate.config.registry import register
from ablate.model.flow import Draw, Features, GateSignal, Shapes, State
from ablate.model.masks import Masks
from ablate.model.slots import Gate


@register(
    "gate",
    "iog_hidden",
    config=IogConfig,
    paper="takase2017iog",
    equation="Eq. 10",
    departures=(
        "implements the formula, whose number of parameters is not the one the paper prints",
        "dropout acts only on the gate's word vector e, independently for each token; the paper "
        "does not say where it acts",
    ),
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
        e_TBG = self.embedding(features.ids_TB, masks)
        return self.output(torch.cat([features.output_TBH, e_TBG], -1)), ()

    def initialize(self, draw: Draw) -> None:
        """The parts draw their own parameters."""
