"""Simple recurrent layers (the RNN of Pachitariu & Sahani 2013).

    x_t = f(W y_t + R x_{t-1} (+ b))

With f the identity this is the paper's dense linear network. With `inputs = "embedding"` the word
vectors feed the units directly, so W is the embedding and there is no input matrix.

R may be block-diagonal; each block has its own initial diagonal and its own share of the learning
rate. The paper's RNN for long contexts has a block of 384 units that starts at 0.9 and one of 128
that starts at 0. R may also be an echo state network's: random, scaled to a spectral radius, and
fixed (`recurrent_rate = 0`) or trained at a share of the learning rate (Jaeger 2001).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from ablate.errors import CombinationError
from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register, setting
from ablate.lm.components.backbone import _layers as layers
from ablate.lm.components.backbone import _simple as simple
from ablate.lm.model.activation import Activation
from ablate.lm.model.fast.recurrence import recurrence


@dataclass(frozen=True, kw_only=True)
class ElmanConfig(simple.RecurrenceConfig):
    """Layers, and the blocks, initial values and learning rates of their recurrent matrices."""

    also_widths: ClassVar = ("blocks",)

    blocks: tuple[int, ...] = setting(
        (), doc="units of each diagonal block of the recurrent matrix; empty: one block", low=1
    )
    block_diagonals: tuple[float, ...] = setting(
        (), doc="added to each block's initial diagonal; empty: 0", low=-1, high=1
    )
    block_rates: tuple[float, ...] = setting(
        (), doc="each block's share of the learning rate; empty: recurrent_rate", low=0
    )
    recurrent_rate: float = setting(
        1.0, doc="share of the learning rate for recurrent weights; 0: fixed", low=0
    )
    spectral_radius: float | None = setting(
        None, doc="scale each block's random weights to this largest |eigenvalue|", low=0
    )


@dataclass(frozen=True)
class Block:
    """A diagonal block of a recurrent matrix: its initial diagonal and its learning rate."""

    units: int
    diagonal: float
    rate: float


def named_blocks(config: ElmanConfig, layer: int, width: int) -> dict[str, Block]:
    """The blocks of a layer's recurrent matrix by the names of their parameters.

    An undivided matrix has the same name as in other backbones, so it starts from the same draws.
    """
    units = config.blocks or (width,)
    if sum(units) != width:
        raise CombinationError(
            f"backbone.blocks = {list(units)} have {sum(units)} units in total, but a layer has "
            f"{width}. Instead: blocks with {width} units in total, no blocks, or "
            f"backbone.units = {sum(units)}."
        )
    diagonals = _per_block("block_diagonals", config.block_diagonals, 0.0, len(units))
    rates = _per_block("block_rates", config.block_rates, config.recurrent_rate, len(units))
    name = f"weight_hh_l{layer}"
    names = [f"{name}_{index}" for index in range(len(units))] if len(units) > 1 else [name]
    return dict(zip(names, map(Block, units, diagonals, rates), strict=True))


def scaled_to_radius(weight_HH: Tensor, radius: float) -> Tensor:
    """The matrix scaled so that its largest |eigenvalue| is the radius."""
    largest = torch.linalg.eigvals(weight_HH).abs().max()
    return weight_HH * (radius / largest)


def _per_block(field: str, values: tuple[float, ...], default: float, num: int) -> tuple:
    if values and len(values) != num:
        raise CombinationError(
            f"backbone.{field} = {list(values)} has {len(values)} values for {num} blocks "
            f"(backbone.blocks). Instead: one value per block, or none."
        )
    return values or (default,) * num


@register(
    "backbone",
    "elman",
    config=ElmanConfig,
    paper="pachitariu2013irlm",
    equation="RNN of Tables 1 and 2; smoothed f: Table 1a; blocks: Table 1d",
    departures=(
        "the paper gives neither the a of its smoothed rectifier nor its initial ranges",
        "the paper has neither a bias nor more than one layer; both are options here",
    ),
)
@final
class Elman(Backbone):
    """Stacked layers; the state is the last x of each layer, [1, B, H]."""

    sites = frozenset({"hidden", "output", "recurrent", "weight"})

    def __init__(self, config: ElmanConfig, shapes: Shapes) -> None:
        super().__init__()
        self.config = config
        self.widths = simple.widths_of(config, shapes)
        self.f = Activation(config.activation, config.smoothing)
        own = config.recurrent_range is not None
        bound = config.recurrent_range if own else config.initial_range
        if config.spectral_radius is not None and bound == 0:
            raise CombinationError(
                f"backbone.spectral_radius scales random weights, but backbone."
                f"{'recurrent' if own else 'initial'}_range = 0 sets them to 0. Instead: a range "
                "above 0, or no spectral_radius."
            )
        simple.add_input_weights(self, config, (shapes.embedding, *self.widths))
        self.blocks = [named_blocks(config, *layer) for layer in enumerate(self.widths)]
        for name, block in self._every_block():
            weight = nn.Parameter(torch.empty(block.units, block.units))
            simple.scale_rate(weight, block.rate)
            self.register_parameter(name, weight)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        def run(layer: int, x: Tensor, last: State) -> tuple[Tensor, Tensor]:
            weight = masks.weight(f"weight_hh_l{layer}", self.recurrent_matrix(layer))
            shape = (1, x.shape[1], self.widths[layer])
            mask = masks.locked(f"recurrent/{layer + 1}", shape, x)
            mask_BH = None if mask is None else mask[0]
            u_TBH = simple.read_input(self, layer, x)
            x_TBH = recurrence(u_TBH, last[0][0], weight, self.f, mask_BH)
            return x_TBH, x_TBH[-1:]

        return layers.run(self, inputs_TBE, state, masks, run)

    def initialize(self, draw: Draw) -> None:
        simple.initialize(self, self.config, draw)
        for name, block in self._every_block():
            weight = self.get_parameter(name).data
            if self.config.spectral_radius is not None:
                weight.copy_(scaled_to_radius(weight, self.config.spectral_radius))
            weight.diagonal().add_(block.diagonal)  # not scaled: added to what is random

    def recurrent_matrix(self, layer: int) -> Tensor:
        """R of a layer, with zeros across its blocks."""
        blocks = [getattr(self, name) for name in self.blocks[layer]]
        # The zeros are no part of a parameter: training would fill them.
        return blocks[0] if len(blocks) == 1 else torch.block_diag(*blocks)

    def _every_block(self) -> list[tuple[str, Block]]:
        return [named for blocks in self.blocks for named in blocks.items()]
