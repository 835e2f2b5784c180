"""Gated recurrent units, any number of layers, by torch's fused kernels (Cho et al. 2014).

    r, z = sigmoid(x W_ih' + b_ih + h W_hh' + b_hh)
    n = tanh(x W_in' + b_in + r (h W_hn' + b_hn)),    h' = (1 - z) n + z h

r is inside n's product, as in torch and cuDNN. Where masks stand on what the gates read of the
state, the layer steps through time itself; the h that z carries on is never masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from ablate.components.backbone import Backbone
from ablate.components.backbone._gru_steps import gru_steps
from ablate.components.backbone._layers import (
    LayersConfig,
    add_layers,
    draw_layers,
    gate_masks,
    layer_units,
    layer_weights,
    output_site,
)
from ablate.components.flow import Draw, Shapes, State
from ablate.components.regularizer import Masks
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class GruConfig(LayersConfig):
    """Layers of a GRU. With one bias a gate, n has none within r's reach."""


def gru_layer(
    x_TBI: Tensor,
    h_1BH: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """One layer over a window: its outputs, and the last h. Gates in the order r, z, n."""
    second = torch.zeros_like(bias_ih) if bias_hh is None else bias_hh
    weights = [weight_ih, weight_hh, bias_ih, second]
    training = torch.is_grad_enabled()
    return torch._VF.gru(  # type: ignore[attr-defined]
        x_TBI, h_1BH, weights, True, 1, 0.0, training, False, False
    )


def masked_gru_layer(
    x_TBI: Tensor,
    h_1BH: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor | None,
    mask_SBI: Tensor | None,
    mask_SBH: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The same, its gates reading input and state under masks held over the window."""
    units = h_1BH.shape[-1]
    if bias_hh is None:
        bias_D, inner_bias_H = bias_ih, torch.zeros_like(bias_ih[:units])
    else:
        of_r_z, inner_bias_H = bias_hh.split(2 * units)
        bias_D = bias_ih + F.pad(of_r_z, (0, units))
    weights = (weight_ih, weight_hh, bias_D, inner_bias_H)
    output_TBH = gru_steps(x_TBI, h_1BH[0], *weights, mask_SBI, mask_SBH)
    return output_TBH, output_TBH[-1:]


@register(
    "backbone",
    "gru",
    config=GruConfig,
    paper="cho2014gru",
    equation="Eq. 5-8",
    departures=(
        "r gates the product of state and matrix, not the state before it, as in torch and cuDNN",
    ),
)
@final
class Gru(Backbone):
    """Stacked GRU layers; the state is (h1, h2, ...), each [1, B, H]."""

    num_gates = 3

    def __init__(self, config: GruConfig, shapes: Shapes) -> None:
        super().__init__()
        self.widths = layer_units(config)
        self.initial_range = config.initial_range
        add_layers(self, shapes.embedding, self.widths, config.biases)

    def initial_state(self, rows: int) -> State:
        like = self.get_parameter("bias_ih_l0")
        return tuple(like.new_zeros(1, rows, width) for width in self.widths)

    def forward(
        self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], State]:
        raw, masked, after = [], [], []
        x = inputs_TBE
        for layer, units in enumerate(self.widths):
            weights = layer_weights(self, layer, masks)
            held = gate_masks(self, layer, x, units, masks)
            if all(mask is None for mask in held):
                output, h = gru_layer(x, state[layer], *weights)
            else:
                output, h = masked_gru_layer(x, state[layer], *weights, *held)
            x = masks(output_site(layer, len(self.widths)), output)
            raw.append(output)
            masked.append(x)
            after.append(h)
        return tuple(raw), tuple(masked), tuple(after)

    def initialize(self, draw: Draw) -> None:
        draw_layers(self, self.widths, self.initial_range, draw)
