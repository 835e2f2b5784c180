"""The input-to-output gate with its own memory (Takase et al. 2017, Eq. 11-12).

    q_t = LSTM(e_t, q_{t-1}),   g = sigmoid(W_g q_t + b_g)

with e as in `iog.py` and a one-layer LSTM as wide as e.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from ablate.lm.components import Draw, Features, Gate, GateSignal, Masks, Shapes, State, register
from ablate.lm.components.backbone.lstm import lstm_layer
from ablate.lm.components.gate.iog import GateMatrix, IogConfig
from ablate.lm.model.language_model import Embedding


class Memory(nn.Module):
    """An LSTM of one layer; its gates have one bias each, as in the authors' library."""

    def __init__(self, units: int, initial_range: float) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(4 * units, units))
        self.weight_hh = nn.Parameter(torch.empty(4 * units, units))
        self.bias = nn.Parameter(torch.empty(4 * units))
        self.initial_range = initial_range

    def forward(self, x_TBG: Tensor, state: State) -> tuple[Tensor, State]:
        """Return q at every step, and the state after the window."""
        h, c = state
        weights = (self.weight_ih, self.weight_hh, self.bias, None)  # None: no second bias
        output_TBG, h, c = lstm_layer(x_TBG, h, c, weights)
        return output_TBG, (h, c)

    def initialize(self, draw: Draw) -> None:
        """Draw the matrices; the bias starts at 0."""
        bound = self.initial_range
        for name in ("weight_ih", "weight_hh"):
            self.get_parameter(name).data.uniform_(-bound, bound, generator=draw(name))
        self.bias.data.zero_()


@register(
    "gate",
    "iog_lstm",
    config=IogConfig,
    paper="takase2017iog",
    equation="Eq. 11-12",
    departures=("dropout acts only on the LSTM's input; the paper does not say where it acts",),
)
@final
class IogLstm(Gate):
    """Depends on all words read so far; its state is (h, c), each [1, B, G]."""

    def __init__(self, config: IogConfig, shapes: Shapes) -> None:
        super().__init__()
        self.units = config.units
        self.dropout = config.dropout
        self.embedding = Embedding(shapes.vocabulary, config.units, config.initial_range)
        self.memory = Memory(config.units, config.initial_range)
        self.output = GateMatrix(shapes.vocabulary, config.units, config.initial_range)

    def initial_state(self, rows: int) -> State:
        like = self.output.bias
        return like.new_zeros(1, rows, self.units), like.new_zeros(1, rows, self.units)

    def forward(self, features: Features, state: State, masks: Masks) -> tuple[GateSignal, State]:
        e_TBG = masks.dropout("gate", self.embedding(features.ids_TB), self.dropout)
        q_TBG, after = self.memory(e_TBG, state)
        return self.output(q_TBG), after
