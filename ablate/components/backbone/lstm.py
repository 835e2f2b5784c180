"""Long short-term memory, any number of layers, by kernels of ours or torch's fused ones.

    i, f, o = sigmoid(...), g = tanh(...), each of x W_ih' + b_ih + h W_hh' + b_hh
    c' = f c + i g,    h' = o tanh(c')

The weights are handed to the kernel at every call, so that a regularizer may transform them
(the weight drop of AWD-LSTM) without touching the parameters. As many papers use it, with
masks between layers (Zaremba et al. 2014) or locked ones (Merity et al. 2018). Where masks stand
on what the gates read of the state (Gal & Ghahramani 2016), or where our kernels can do it, the
layer steps through time itself:

    x W_ih' + h W_hh'  becomes, gate by gate,  (m x) W_ih' + (m' h) W_hh',    c is never masked
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from ablate.components.backbone import Backbone
from ablate.components.backbone._layers import (
    LayersConfig,
    add_layers,
    draw_layers,
    gate_masks,
    layer_units,
    layer_weights,
    output_site,
)
from ablate.components.backbone._lstm_steps import lstm_steps
from ablate.components.flow import Draw, Shapes, State
from ablate.components.keras import INITIALIZATIONS, check_initialization, lstm_parameter
from ablate.components.regularizer import Masks
from ablate.fields import setting
from ablate.native.library import usable
from ablate.registry import register

FEWEST_STEPS = 8  # in shorter windows our steps' preparations cost what they save


@dataclass(frozen=True, kw_only=True)
class LstmConfig(LayersConfig):
    """Layers of an LSTM."""

    initialization: str = setting(
        "uniform",
        doc="uniform in `initial_range`, or as Keras starts an LSTM",
        choices=INITIALIZATIONS,
    )


def lstm_layer(
    x_TBI: Tensor,
    h_1BH: Tensor,
    c_1BH: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer over a window: its outputs, and the last h and c. Gates in the order i, f, g, o."""
    second = torch.zeros_like(bias_ih) if bias_hh is None else bias_hh
    weights = [weight_ih, weight_hh, bias_ih, second]
    training = torch.is_grad_enabled()
    return torch._VF.lstm(  # type: ignore[attr-defined]
        x_TBI, (h_1BH, c_1BH), weights, True, 1, 0.0, training, False, False
    )


def stepped_lstm_layer(
    x_TBI: Tensor,
    h_1BH: Tensor,
    c_1BH: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor | None,
    mask_SBI: Tensor | None,
    mask_SBH: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by steps of ours; its gates read input and state under masks, if there are any."""
    bias_D = bias_ih if bias_hh is None else bias_ih + bias_hh
    arguments = (x_TBI, h_1BH[0], c_1BH[0], weight_ih, weight_hh, bias_D, mask_SBI, mask_SBH)
    output_TBH, c_BH = lstm_steps(*arguments)
    return output_TBH, output_TBH[-1:], c_BH[None]


@register(
    "backbone",
    "lstm",
    config=LstmConfig,
    paper="merity2018awd",
    equation="Section 2 (weight-dropped); Zaremba et al. 2014, Eq. 1-6",
)
@final
class Lstm(Backbone):
    """Stacked LSTM layers; the state is (h1, c1, h2, c2, ...), each [1, B, H]."""

    num_gates = 4

    def __init__(self, config: LstmConfig, shapes: Shapes) -> None:
        super().__init__()
        check_initialization(config.initialization, config.initial_range, "backbone")
        self.widths = layer_units(config)
        self.initialization = config.initialization
        self.initial_range = config.initial_range
        add_layers(self, shapes.embedding, self.widths, config.biases)

    def initial_state(self, rows: int) -> State:
        like = self.get_parameter("bias_ih_l0")
        return tuple(like.new_zeros(1, rows, width) for width in self.widths for _ in range(2))

    def forward(
        self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], State]:
        raw, masked, after = [], [], []
        x = inputs_TBE
        for layer, units in enumerate(self.widths):
            h, c = state[2 * layer : 2 * layer + 2]
            weights = layer_weights(self, layer, masks)
            held = gate_masks(self, layer, x, units, masks)
            unmasked = all(mask is None for mask in held)
            if unmasked and not (len(x) >= FEWEST_STEPS and usable(x, *weights)):
                output, h, c = lstm_layer(x, h, c, *weights)
            else:
                output, h, c = stepped_lstm_layer(x, h, c, *weights, *held)
            x = masks(output_site(layer, len(self.widths)), output)
            raw.append(output)
            masked.append(x)
            after += [h, c]
        return tuple(raw), tuple(masked), tuple(after)

    def initialize(self, draw: Draw) -> None:
        if self.initialization == "uniform":
            draw_layers(self, self.widths, self.initial_range, draw)
            return
        for name, parameter in self.named_parameters():
            lstm_parameter(name, parameter.data, draw(name))
