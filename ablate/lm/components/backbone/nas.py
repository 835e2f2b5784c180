"""The recurrent cell that Zoph and Le (2017) found by a search with reinforcement learning.

For one step, with a = W x and u = U m cut into eight parts of H units each:

    n0 = sigmoid(a0 + u0)    n1 = relu(a1 + u1)    n2 = sigmoid(a2 + u2)    n3 = relu(a3 u3)
    n4 = tanh(a4 + u4)       n5 = sigmoid(a5 + u5)  n6 = tanh(a6 + u6)      n7 = sigmoid(a7 + u7)
    p0 = tanh(n0 n1)         p1 = tanh(n2 + n3)    p2 = tanh(n4 n5)         p3 = sigmoid(n6 + n7)
    c' = tanh(p0 + c) p1     m' = tanh(c' tanh(p2 + p3))

n3 multiplies its two parts where all others add them. The cell has no biases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register, setting
from ablate.lm.components.backbone import _layers as layers
from ablate.lm.model.fast.steps import plain_product

NUM_PARTS = 8


@dataclass(frozen=True, kw_only=True)
class NasConfig:
    """Layers of the cell."""

    num_layers: int = setting(2, doc="number of layers", low=1)
    units: int | tuple[int, ...] = setting(
        200, doc="units of every layer, or a list with one number per layer", low=1
    )
    initial_range: float | None = setting(
        None, doc="parameters start uniform in +- this; none: 1/sqrt(units)", low=0
    )


def nas_step(a_BD: Tensor, u_BD: Tensor, c_BH: Tensor) -> tuple[Tensor, Tensor]:
    """m' and c' from the products with x and with m, [B, 8H] each."""
    a, u = a_BD.chunk(NUM_PARTS, -1), u_BD.chunk(NUM_PARTS, -1)
    n0, n2, n5, n7 = (torch.sigmoid(a[i] + u[i]) for i in (0, 2, 5, 7))
    n1, n3 = F.relu(a[1] + u[1]), F.relu(a[3] * u[3])
    n4, n6 = torch.tanh(a[4] + u[4]), torch.tanh(a[6] + u[6])
    p0, p1 = torch.tanh(n0 * n1), torch.tanh(n2 + n3)
    p2, p3 = torch.tanh(n4 * n5), torch.sigmoid(n6 + n7)
    c_BH = torch.tanh(p0 + c_BH) * p1
    return torch.tanh(c_BH * torch.tanh(p2 + p3)), c_BH


@register(
    "backbone",
    "nas",
    config=NasConfig,
    paper="zoph2017nas",
    equation="the cell of the paper's Figure 8, as TensorFlow's contributed NASCell has it",
    departures=("the rates of the paper's variational dropout are not published",),
)
@final
class Nas(Backbone):
    """Stacked cells; the state is (m1, c1, m2, c2, ...), each [1, B, H]."""

    sites = frozenset({"hidden", "output", "recurrent", "weight"})
    num_gates = NUM_PARTS
    states_per_layer = 2

    def __init__(self, config: NasConfig, shapes: Shapes) -> None:
        super().__init__()
        self.widths = layers.widths_of(config.units, config.num_layers)
        self.initial_range = config.initial_range
        inputs = (shapes.embedding, *self.widths[:-1])
        for layer, (width_in, units) in enumerate(zip(inputs, self.widths, strict=True)):
            for kind, width in (("ih", width_in), ("hh", units)):
                weight = nn.Parameter(torch.empty(NUM_PARTS * units, width))
                self.register_parameter(f"weight_{kind}_l{layer}", weight)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        def run(layer: int, x_TBI: Tensor, last: State) -> tuple[Tensor, Tensor, Tensor]:
            weight_ih = getattr(self, f"weight_ih_l{layer}")
            recurrent = f"weight_hh_l{layer}"
            weight_hh = masks.weight(recurrent, getattr(self, recurrent))
            on_x, on_m = layers.gate_masks(self, layer, x_TBI, self.widths[layer], masks)
            m_BH, c_BH = last[0][0], last[1][0]
            steps = []
            # One product with x for all steps; only that with m waits for the step before.
            for a_BD in plain_product(x_TBI, weight_ih, on_x):
                m_BH, c_BH = nas_step(a_BD, plain_product(m_BH, weight_hh, on_m), c_BH)
                steps.append(m_BH)
            return torch.stack(steps), m_BH[None], c_BH[None]

        return layers.run(self, inputs_TBE, state, masks, run)

    def initialize(self, draw: Draw) -> None:
        layers.initialize(self, self.initial_range, draw)
