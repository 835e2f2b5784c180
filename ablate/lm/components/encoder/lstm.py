"""Stacked LSTM layers over the source, in one direction or in both.

    a layer's output at s = [forward_s ; backward_s],    each direction with half of the units

The backward direction reads every sentence from its own last token to its first, so the filling
after a short sentence reaches no real token. The sentence's vector is what each direction of the
last layer has after the last token that it reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor, nn

from ablate.lm.components import CombinationError, Draw, Encoder, Masks, Shapes, register, setting
from ablate.lm.components.backbone.lstm import Lstm, LstmConfig

DIRECTIONS = ("ahead", "back")


@dataclass(frozen=True, kw_only=True)
class LstmEncoderConfig:
    """Layers of an LSTM that reads the source."""

    num_layers: int = setting(2, doc="number of layers", low=1, high=100)
    units: int = setting(500, doc="units of a layer, both directions together", low=1)
    bidirectional: bool = setting(True, doc="read the sentence in both directions")
    share_words: bool = setting(
        False, doc="read the decoder's word vectors, which needs corpus.joint = true"
    )
    initial_range: float | None = setting(
        None, doc="parameters start uniform in +- this; none: 1/sqrt(units), as in torch", low=0
    )


def reversed_within(x_SBE: Tensor, real_SB1: Tensor) -> Tensor:
    """Each sentence from its last real token to its first, then its filling; its own inverse."""
    steps = torch.arange(len(x_SBE), device=x_SBE.device)[:, None]
    lengths_B = real_SB1[..., 0].sum(0).long()
    source_SB = torch.where(steps < lengths_B, lengths_B - 1 - steps, steps)
    return x_SBE.gather(0, source_SB[..., None].expand_as(x_SBE))


@register(
    "encoder",
    "lstm",
    config=LstmEncoderConfig,
    paper="takase2018doc",
    equation="Section 6 (a two-layer bidirectional LSTM)",
    departures=(
        "the paper gives neither the units of each direction nor what the decoder starts from: "
        "here each direction has half of the units, and the decoder starts from the last layer's "
        "final vectors",
        "a mask of regularizer.variational_dropout.recurrent is of one direction, also if "
        "variational_dropout.tied = true",
    ),
)
@final
class LstmEncoder(Encoder):
    """Every layer has an `Lstm` of one layer for each direction."""

    def __init__(self, config: LstmEncoderConfig, shapes: Shapes) -> None:
        super().__init__()
        self.directions = DIRECTIONS if config.bidirectional else DIRECTIONS[:1]
        if config.units % len(self.directions):
            raise CombinationError(
                f"encoder.units = {config.units} cannot be shared by two directions. Instead: an "
                "even number, or encoder.bidirectional = false."
            )
        self.width = config.units
        self.shares_words = config.share_words
        units = config.units // len(self.directions)
        one = LstmConfig(num_layers=1, units=units, initial_range=config.initial_range)
        above = replace(shapes, embedding=config.units)
        self.layers = nn.ModuleList(
            nn.ModuleDict({name: Lstm(one, read) for name in self.directions})
            for read in (shapes, *(above,) * (config.num_layers - 1))
        )
        for number, layer in enumerate(self.layers):
            for lstm in layer.values():  # type: ignore[operator]
                # Masks on gates are named after the layer below, and an `Lstm` knows only its own.
                lstm.layers_below = number

    def forward(self, inputs_SBE: Tensor, real_SB1: Tensor, masks: Masks) -> tuple[Tensor, Tensor]:
        x, final = inputs_SBE, inputs_SBE[:1]
        for number, layer in enumerate(self.layers, 1):
            own = {name: masks.of(f"encoder/{number}/{name}") for name in self.directions}
            outputs = [self._read(layer, name, x, real_SB1, own[name]) for name in self.directions]
            x = torch.cat([output for output, _ in outputs], -1)
            final = torch.cat([last for _, last in outputs], -1)
            x = masks("output" if number == len(self.layers) else f"hidden/{number}", x)
        return x, final

    def _read(
        self, layer: nn.Module, direction: str, x_SBI: Tensor, real_SB1: Tensor, masks: Masks
    ) -> tuple[Tensor, Tensor]:
        """A direction's outputs in the sentence's order, and the one after its last token."""
        lstm, backward = layer[direction], direction == DIRECTIONS[1]  # type: ignore[index]
        inputs = reversed_within(x_SBI, real_SB1) if backward else x_SBI
        state, own = lstm.initial_state(x_SBI.shape[1]), masks.recurrent_only()
        # An LSTM ignores the tokens (the second argument); its last state is after the filling.
        (output,), _, _ = lstm(inputs, inputs[..., 0], state, own)
        last_1B1 = real_SB1.sum(0, keepdim=True).long() - 1
        final = output.gather(0, last_1B1.expand(1, -1, output.shape[-1]))
        return (reversed_within(output, real_SB1) if backward else output), final

    def initialize(self, draw: Draw) -> None:
        """Draw nothing: each `Lstm` is a module that draws its own parameters."""
