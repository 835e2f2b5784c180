"""Gated recurrent units, any number of layers, by torch's fused kernels (Cho et al. 2014).

    r, z = sigmoid(x W_ih' + b_ih + h W_hh' + b_hh)
    n = tanh(x W_in' + b_in + r (h W_hn' + b_hn)),    h' = (1 - z) n + z h

r scales the product h W_hn' + b_hn, as in torch and cuDNN. If the gates read the state under a
mask, our code steps through time instead; the h that z carries over is never masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register
from ablate.lm.components.backbone import _layers as layers
from ablate.lm.model.fast.steps import plain_product


@dataclass(frozen=True, kw_only=True)
class GruConfig(layers.LayersConfig):
    """Layers of a GRU. With one bias per gate, n has no bias that r scales (no b_hn)."""


def gru_layer(x_TBI: Tensor, h_1BH: Tensor, weights: layers.Weights) -> tuple[Tensor, Tensor]:
    """One layer over a window: its outputs, and the last h. Gates in the order r, z, n."""
    return layers.fused(torch._VF.gru, x_TBI, h_1BH, weights)  # type: ignore[attr-defined]


def gru_step(a_BD: Tensor, k_BD: Tensor, h_BH: Tensor) -> Tensor:
    """The next h, from the gates' parts of the input (a) and of the state (k)."""
    (a_r, a_z, a_n), (k_r, k_z, k_n) = a_BD.chunk(3, -1), k_BD.chunk(3, -1)
    r, z = (a_r + k_r).sigmoid(), (a_z + k_z).sigmoid()
    n = (a_n + r * k_n).tanh()
    return torch.lerp(n, h_BH, z)


def masked_gru_layer(
    x_TBI: Tensor,
    h_1BH: Tensor,
    weights: layers.Weights,
    mask_SBI: Tensor | None,
    mask_SBH: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The same, with masks on the input and on the state that the gates read."""
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    # Unlike an LSTM's, the two biases cannot be added up: r scales the state's.
    h_BH, bias_D = h_1BH[0], torch.zeros_like(bias_ih) if bias_hh is None else bias_hh
    steps = []
    for a_BD in plain_product(x_TBI, weight_ih, mask_SBI) + bias_ih:
        h_BH = gru_step(a_BD, plain_product(h_BH, weight_hh, mask_SBH) + bias_D, h_BH)
        steps.append(h_BH)
    return torch.stack(steps), h_BH[None]


@register(
    "backbone",
    "gru",
    config=GruConfig,
    paper="cho2014gru",
    equation="Eq. 5-8",
    departures=(
        "r scales the product of state and matrix, not the state before it, as in torch and cuDNN",
    ),
)
@final
class Gru(Backbone):
    """Stacked GRU layers; the state is (h1, h2, ...), each [1, B, H]."""

    sites = frozenset({"hidden", "output", "recurrent", "weight"})
    num_gates = 3

    def __init__(self, config: GruConfig, shapes: Shapes) -> None:
        super().__init__()
        self.widths = layers.units_of(config)
        self.initial_range = config.initial_range
        inputs = (shapes.embedding, *self.widths[:-1])
        for layer, sizes in enumerate(zip(inputs, self.widths, strict=True)):
            layers.add(self, layer, *sizes, gates=self.num_gates, biases=config.biases)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        def run(layer: int, x: Tensor, last: State) -> tuple[Tensor, Tensor]:
            weights = layers.weights_of(self, layer, masks)
            on_x, on_h = layers.gate_masks(self, layer, x, self.widths[layer], masks)
            if on_x is None and on_h is None:
                return gru_layer(x, last[0], weights)
            return masked_gru_layer(x, last[0], weights, on_x, on_h)

        return layers.run(self, inputs_TBE, state, masks, run)

    def initialize(self, draw: Draw) -> None:
        layers.initialize(self, self.initial_range, draw)
