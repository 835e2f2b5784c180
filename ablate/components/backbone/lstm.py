"""Long short-term memory, any number of layers, by torch's fused kernels.

    i, f, o = sigmoid(...), g = tanh(...), each of x W_ih' + b_ih + h W_hh' + b_hh
    c' = f c + i g,    h' = o tanh(c')

The weights are handed to the kernel at every call, so that a regularizer may transform them
(the weight drop of AWD-LSTM) without touching the parameters. As many papers use it, with
masks between layers (Zaremba et al. 2014) or locked ones (Merity et al. 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ablate.components.backbone import Backbone
from ablate.components.flow import Draw, Shapes, State
from ablate.components.regularizer import Masks
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class LstmConfig:
    """Layers of an LSTM."""

    num_layers: int = setting(2, doc="layers", low=1)
    units: int | tuple[int, ...] = setting(
        200, doc="units of every layer, or a list with one number a layer", low=1
    )
    last_units: int | None = setting(
        None, doc="units of the last layer, if others than `units` (AWD: the word vectors')", low=1
    )
    biases: int = setting(
        2, doc="bias vectors a gate: torch has 2, Keras and Chainer 1", choices=(1, 2)
    )
    initial_range: float | None = setting(
        None, doc="parameters start uniform in +- this; none: 1/sqrt(units), as in torch", low=0
    )


def layer_units(config: LstmConfig) -> tuple[int, ...]:
    """The units of each layer."""
    units = config.units
    widths = (units,) * config.num_layers if isinstance(units, int) else units
    if len(widths) != config.num_layers:
        raise CombinationError(
            f"backbone.units names {len(widths)} layers ({list(widths)}), but backbone.num_layers "
            f"= {config.num_layers}. Give one number for all, or as many as there are layers."
        )
    return widths if config.last_units is None else (*widths[:-1], config.last_units)


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

    def __init__(self, config: LstmConfig, shapes: Shapes) -> None:
        super().__init__()
        self.widths = layer_units(config)
        self.initial_range = config.initial_range
        inputs = (shapes.embedding, *self.widths[:-1])
        for layer, (width_in, width) in enumerate(zip(inputs, self.widths, strict=True)):
            self._add(f"weight_ih_l{layer}", 4 * width, width_in)
            self._add(f"weight_hh_l{layer}", 4 * width, width)
            self._add(f"bias_ih_l{layer}", 4 * width)
            if config.biases == 2:
                self._add(f"bias_hh_l{layer}", 4 * width)

    def _add(self, name: str, *shape: int) -> None:
        self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def initial_state(self, rows: int) -> State:
        like = self.get_parameter("bias_ih_l0")
        return tuple(like.new_zeros(1, rows, width) for width in self.widths for _ in range(2))

    def forward(
        self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], State]:
        raw, masked, after = [], [], []
        x = inputs_TBE
        for layer in range(len(self.widths)):
            h, c = state[2 * layer : 2 * layer + 2]
            output, h, c = lstm_layer(x, h, c, *self._weights(layer, masks))
            x = masks(self._site(layer), output)
            raw.append(output)
            masked.append(x)
            after += [h, c]
        return tuple(raw), tuple(masked), tuple(after)

    def initialize(self, draw: Draw) -> None:
        for name, parameter in self.named_parameters():
            width = self.widths[int(name.rpartition("_l")[2])]
            bound = width**-0.5 if self.initial_range is None else self.initial_range
            parameter.data.uniform_(-bound, bound, generator=draw(name))

    def _weights(self, layer: int, masks: Masks) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        recurrent = f"weight_hh_l{layer}"
        return (
            self.get_parameter(f"weight_ih_l{layer}"),
            masks.weight(recurrent, self.get_parameter(recurrent)),
            self.get_parameter(f"bias_ih_l{layer}"),
            getattr(self, f"bias_hh_l{layer}", None),
        )

    def _site(self, layer: int) -> str:
        return "output" if layer == len(self.widths) - 1 else f"hidden/{layer + 1}"
