"""The dual layer combines the embedded word with the recurrent output (Oliva et al. 2021).

    d = ReLU(W_e e + W_h h + b),    y = softmax(E d)

This frees the recurrent layers from carrying the last word along, as an output matrix tied to the
word vectors would otherwise require.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import Bridge, Draw, Features, Masks, Shapes, register, setting
from ablate.lm.model.keras import INITIALIZATIONS, check_initialization, glorot
from ablate.lm.model.width import first_range


@dataclass(frozen=True, kw_only=True)
class DualConfig:
    """The layer's units, and its dropout (one mask for all steps of a window)."""

    units: int | None = setting(
        None, doc="number of units; none: the size of the word vectors, as a tied head needs", low=1
    )
    input_dropout: float = setting(
        0.0, doc="dropout rate on both inputs, word and recurrent", low=0, high=0.99
    )
    output_dropout: float = setting(0.0, doc="dropout rate on the output", low=0, high=0.99)
    initial_range: float | None = setting(
        None, doc="matrices start uniform in +- this; none: 1/sqrt(number of inputs)", low=0
    )
    initialization: str = setting(
        "uniform",
        doc="uniform in `initial_range`, or as Keras initializes one layer with both inputs",
        choices=INITIALIZATIONS,
    )


def dual(
    e_TBE: Tensor, h_TBH: Tensor, weight_DE: Tensor, weight_DH: Tensor, bias_D: Tensor
) -> Tensor:
    """ReLU(W_e e + W_h h + b)."""
    return (F.linear(e_TBE, weight_DE, bias_D) + F.linear(h_TBH, weight_DH)).relu()


@register(
    "bridge",
    "dual",
    config=DualConfig,
    paper="oliva2021dual",
    equation="Section 2, Eq. 4-7",
    departures=(
        "e is the embedded input as the first recurrent layer reads it, after the masks of the "
        "site 'input'; the paper does not say on which side of that dropout it is taken",
        "the dropout before the layer acts on both of its inputs; its masks are the same at every "
        "step of a window, which the paper leaves open",
        "matrices start uniform, as in torch's nn.Linear, unless initialization = 'keras': then in "
        "Glorot's range for a single matrix. The bias starts at 0 in both cases",
    ),
)
@final
class Dual(Bridge):
    """Reads the embedded input and the backbone's masked output."""

    def __init__(self, config: DualConfig, shapes: Shapes) -> None:
        super().__init__()
        check_initialization(config.initialization, config.initial_range, "bridge")
        self.initialization = config.initialization
        self.width = shapes.embedding if config.units is None else config.units
        self.input_dropout = config.input_dropout
        self.output_dropout = config.output_dropout
        self.inputs, self.initial_range = shapes.embedding + shapes.layers[-1], config.initial_range
        self.weight_e = nn.Parameter(torch.empty(self.width, shapes.embedding))
        self.weight_h = nn.Parameter(torch.empty(self.width, shapes.layers[-1]))
        self.bias = nn.Parameter(torch.empty(self.width))

    def forward(self, features: Features, masks: Masks) -> Features:
        rate = self.input_dropout
        e_TBE = masks.dropout("dual/embedded", features.inputs_TBE, rate, locked=True)
        h_TBH = masks.dropout("dual/recurrent", features.output_TBH, rate, locked=True)
        d_TBD = dual(e_TBE, h_TBH, self.weight_e, self.weight_h, self.bias)
        output = masks.dropout("dual/output", d_TBD, self.output_dropout, locked=True)
        return replace(features, output_TBH=output)

    def initialize(self, draw: Draw) -> None:
        for name in ("weight_e", "weight_h"):
            weight = self.get_parameter(name)
            if self.initialization == "keras":
                # In Keras both are parts of one kernel, whose size gives the range.
                fans = self.width + self.weight_e.shape[1] + self.weight_h.shape[1]
                glorot(weight.data, draw(name), fans)
            else:
                bound = first_range(weight, self.initial_range, self.inputs)
                weight.data.uniform_(-bound, bound, generator=draw(name))
        self.bias.data.zero_()
