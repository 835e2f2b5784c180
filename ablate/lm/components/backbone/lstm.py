"""Long short-term memory, any number of layers, by our kernels or by torch's fused ones.

    a = (m x) W_ih' + b_ih + (m' h) W_hh' + b_hh,    split into a_i, a_f, a_g and a_o
    i = sigmoid(a_i),    f = sigmoid(a_f),    g = tanh(a_g),    o = sigmoid(a_o)
    c' = f c + i g,    h' = o tanh(c')

m and m' are the masks under which the gates read the input and the state (Gal & Ghahramani 2016),
one for all gates or one for each; they are 1 without this dropout, and c is never masked. Masked
layers, and windows for which our kernels are available, are stepped through by our own code
(`ablate/lm/model/fast/lstm_steps.py`), all others by torch's fused kernel.

The weights are passed to either at every call, so a regularizer can transform them (the weight drop
of AWD-LSTM) without touching the parameters. The masks between layers may be fresh at every step
(Zaremba et al. 2014) or locked over the window (Merity et al. 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register, setting
from ablate.lm.components.backbone import _layers as layers
from ablate.lm.model import fan_in, keras
from ablate.lm.model.fast.lstm_steps import lstm_steps
from ablate.lm.model.fast.precision import autocast_dtype, onednn_has_bfloat16
from ablate.lm.model.native.library import usable

FEWEST_STEPS = 8  # for shorter windows, preparing our steps costs more than it saves
FILL = {"keras": keras.lstm_parameter, "fan_in": fan_in.lstm_parameter}


@dataclass(frozen=True, kw_only=True)
class LstmConfig(layers.LayersConfig):
    """Layers of an LSTM."""

    initialization: str = setting(
        "uniform",
        doc="uniform in `initial_range`, as Keras initializes an LSTM, or truncated normal with "
        "about 1/inputs as variance (Melis)",
        choices=("uniform", *FILL),
    )


def lstm_layer(
    x_TBI: Tensor, h_1BH: Tensor, c_1BH: Tensor, weights: layers.Weights
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer over a window: its outputs, and the last h and c. Gates in the order i, f, g, o."""
    low = autocast_dtype(x_TBI.device) == torch.bfloat16 and x_TBI.device.type == "cpu"
    # torch's fused LSTM raises an error in bfloat16 on a processor without AVX-512.
    if low and not onednn_has_bfloat16():
        return stepped_lstm_layer(x_TBI, h_1BH, c_1BH, weights, None, None)
    return layers.fused(torch._VF.lstm, x_TBI, (h_1BH, c_1BH), weights)  # type: ignore[attr-defined]


def stepped_lstm_layer(
    x_TBI: Tensor,
    h_1BH: Tensor,
    c_1BH: Tensor,
    weights: layers.Weights,
    mask_SBI: Tensor | None,
    mask_SBH: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by our own steps, with optional masks on the input and state that the gates read."""
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    # Only their sum matters, unlike in a GRU.
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

    sites = frozenset({"hidden", "output", "recurrent", "weight"})
    num_gates = 4
    states_per_layer = 2

    def __init__(self, config: LstmConfig, shapes: Shapes) -> None:
        super().__init__()
        keras.check_initialization(config.initialization, config.initial_range, "backbone")
        self.widths = layers.units_of(config)
        self.initialization = config.initialization
        self.initial_range = config.initial_range
        inputs = (shapes.embedding, *self.widths[:-1])
        for layer, sizes in enumerate(zip(inputs, self.widths, strict=True)):
            layers.add(self, layer, *sizes, gates=self.num_gates, biases=config.biases)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        def run(layer: int, x: Tensor, last: State) -> tuple[Tensor, Tensor, Tensor]:
            weights = layers.weights_of(self, layer, masks)
            on_x, on_h = layers.gate_masks(self, layer, x, self.widths[layer], masks)
            (h, c), unmasked = last, on_x is None and on_h is None
            if unmasked and not (len(x) >= FEWEST_STEPS and usable(x, *weights)):
                return lstm_layer(x, h, c, weights)
            return stepped_lstm_layer(x, h, c, weights, on_x, on_h)

        return layers.run(self, inputs_TBE, state, masks, run)

    def initialize(self, draw: Draw) -> None:
        if self.initialization == "uniform":
            layers.initialize(self, self.initial_range, draw)
            return
        for name, parameter in self.named_parameters():
            FILL[self.initialization](name, parameter.data, draw(name))
