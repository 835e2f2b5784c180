"""Simple recurrent layers (the RNN of Pachitariu & Sahani 2013).

    x_t = f(W y_t + R x_{t-1} (+ b))

With f the identity this is the paper's dense linear network; with `inputs = "embedding"` the word
vectors feed the units as they are, so that W is the embedding and has no matrix beside it.

R may be cut into diagonal blocks without weights across them, each with a diagonal it starts from
and a share of the learning rate of its own: the paper's RNN for long contexts is blocks of 384
units from 0.9 and 128 from 0. And it may be an echo state's: random, scaled to a spectral radius,
and fixed (`recurrent_rate = 0`) or trained at a share of the rate (Jaeger 2001).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ablate.components.activation import Activation
from ablate.components.backbone import Backbone
from ablate.components.flow import Draw, Shapes, State
from ablate.components.recurrence import (
    RecurrenceConfig,
    add_input_weights,
    initialize_weights,
    layer_widths,
    read_input,
    recurrence,
    site,
    take_share,
)
from ablate.components.regularizer import Masks
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class ElmanConfig(RecurrenceConfig):
    """Layers, and how their recurrent matrices are cut, start and learn."""

    blocks: tuple[int, ...] = setting(
        (), doc="units of each diagonal block of the recurrent matrix; empty: it is whole", low=1
    )
    block_diagonals: tuple[float, ...] = setting(
        (), doc="added to each block's diagonal at the start; empty: 0", low=-1, high=1
    )
    block_rates: tuple[float, ...] = setting(
        (), doc="each block's share of the learning rate; empty: recurrent_rate", low=0
    )
    recurrent_rate: float = setting(
        1.0, doc="recurrent weights' share of the learning rate; 0: they are fixed", low=0
    )
    spectral_radius: float | None = setting(
        None, doc="the random part of each block is scaled to this largest |eigenvalue|", low=0
    )


@dataclass(frozen=True)
class Block:
    """A diagonal block of a recurrent matrix: where it starts and how fast it learns."""

    units: int
    diagonal: float
    rate: float


def diagonal_blocks(config: ElmanConfig, width: int) -> tuple[Block, ...]:
    """The blocks of a layer's recurrent matrix: as configured, or one."""
    units = config.blocks or (width,)
    if sum(units) != width:
        raise CombinationError(
            f"backbone.blocks = {list(units)} are {sum(units)} units, but a layer has {width}. "
            f"Allowed: blocks of {width} units together, or none; or set backbone.units."
        )
    diagonals = _for_each("block_diagonals", config.block_diagonals, 0.0, len(units))
    rates = _for_each("block_rates", config.block_rates, config.recurrent_rate, len(units))
    return tuple(map(Block, units, diagonals, rates))


def scaled_to_radius(weight_HH: Tensor, radius: float) -> Tensor:
    """The matrix times what makes its largest |eigenvalue| the radius."""
    largest = torch.linalg.eigvals(weight_HH).abs().max()
    return weight_HH * (radius / largest)


def _for_each(field: str, given: tuple[float, ...], otherwise: float, num: int) -> tuple:
    if given and len(given) != num:
        raise CombinationError(
            f"backbone.{field} = {list(given)} has {len(given)} values for {num} blocks "
            f"(backbone.blocks). Allowed: one for each, or none."
        )
    return given or (otherwise,) * num


@register(
    "backbone",
    "elman",
    config=ElmanConfig,
    paper="pachitariu2013irlm",
    equation="RNN of Tables 1 and 2; smoothed f: Table 1a; blocks: Table 1d",
    departures=(
        "the paper gives neither the a of its smoothed rectifier nor its initial ranges",
        "a bias and more layers than one are options that the paper does not have",
    ),
)
@final
class Elman(Backbone):
    """Stacked layers; the state is each layer's last x, [1, B, H]."""

    def __init__(self, config: ElmanConfig, shapes: Shapes) -> None:
        super().__init__()
        self.config = config
        self.widths = layer_widths(config, shapes)
        self.f = Activation(config.activation, config.smoothing)
        if config.spectral_radius is not None and config.recurrent_range == 0:
            raise CombinationError(
                "backbone.spectral_radius scales random weights, but backbone.recurrent_range = 0 "
                "draws none. Allowed: a range above 0, or no spectral_radius."
            )
        add_input_weights(self, config, (shapes.embedding, *self.widths))
        self.blocks = [diagonal_blocks(config, width) for width in self.widths]
        for name, block in self._named_blocks():
            weight = nn.Parameter(torch.empty(block.units, block.units))
            take_share(weight, block.rate)
            self.register_parameter(name, weight)

    def initial_state(self, rows: int) -> State:
        like = next(self.parameters())
        return tuple(like.new_zeros(1, rows, width) for width in self.widths)

    def forward(
        self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], State]:
        raw, masked = [], []
        x = inputs_TBE
        for layer, (before_1BH, width) in enumerate(zip(state, self.widths, strict=True)):
            weight = masks.weight(f"weight_hh_l{layer}", self.recurrent_matrix(layer))
            held = masks.held(f"recurrent/{layer + 1}", (1, x.shape[1], width), x)
            mask = None if held is None else held[0]
            raw.append(recurrence(read_input(self, layer, x), before_1BH[0], weight, self.f, mask))
            x = masks(site(layer, len(self.widths)), raw[-1])
            masked.append(x)
        return tuple(raw), tuple(masked), tuple(x_TBH[-1:] for x_TBH in raw)

    def initialize(self, draw: Draw) -> None:
        initialize_weights(self, self.config, draw)
        for name, block in self._named_blocks():
            weight = self.get_parameter(name).data
            if self.config.spectral_radius is not None:
                weight.copy_(scaled_to_radius(weight, self.config.spectral_radius))
            weight.diagonal().add_(block.diagonal)

    def recurrent_matrix(self, layer: int) -> Tensor:
        """R of a layer, with zeros across its blocks."""
        names = [_block_name(layer, i, self.blocks[layer]) for i in range(len(self.blocks[layer]))]
        blocks = [self.get_parameter(name) for name in names]
        return blocks[0] if len(blocks) == 1 else torch.block_diag(*blocks)

    def _named_blocks(self) -> list[tuple[str, Block]]:
        return [
            (_block_name(layer, index, blocks), block)
            for layer, blocks in enumerate(self.blocks)
            for index, block in enumerate(blocks)
        ]


def _block_name(layer: int, index: int, blocks: tuple[Block, ...]) -> str:
    """A whole matrix has the name that it has in other backbones."""
    name = f"weight_hh_l{layer}"
    return name if len(blocks) == 1 else f"{name}_{index}"
