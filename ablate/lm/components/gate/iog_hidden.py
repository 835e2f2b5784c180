"""The input-to-output gate that also reads the hidden state (Takase et al. 2017, Eq. 10).

    g = sigmoid(W'_g [h; e] + b_g)

with e as in `iog.py` and h the head's input. The paper counts 0.8 million more parameters for it;
the formula has V times the units of h (8.9 million).
"""

from __future__ import annotations

from typing import final

import torch

from ablate.lm.components import Features, Gate, GateSignal, Masks, Shapes, State, register
from ablate.lm.components.gate.iog import GateMatrix, IogConfig
from ablate.lm.model.language_model import Embedding


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
        self.dropout = config.dropout
        self.embedding = Embedding(shapes.vocabulary, config.units, config.initial_range)
        self.output = GateMatrix(shapes.vocabulary, width, config.initial_range)

    def forward(self, features: Features, state: State, masks: Masks) -> tuple[GateSignal, State]:
        e_TBG = masks.dropout("gate", self.embedding(features.ids_TB), self.dropout)
        return self.output(torch.cat([features.output_TBH, e_TBG], -1)), ()
