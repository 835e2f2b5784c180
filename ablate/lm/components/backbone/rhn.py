"""Recurrent highway network: several micro-steps for every word (Zilly et al. 2017).

    h = tanh(V_h x + W_h (m s) + b_h),    t = sigmoid(V_t x + W_t (m' s) + b_t)    Eq. 7-8
    s <- h t + s (1 - t),    where 1 - t is the carry gate                         Eq. 6

Only the first micro-step has the terms in x; each micro-step has its own W and b. If every t is 0
the state does not change. h and t read x and s under the same masks, as in the authors' TensorFlow
code (m = m'), or under separate ones, as in their Torch code (`gate_masks` of the variational
dropout: first the mask of h, then that of t). Without this dropout the masks are 1.

The kernels have a backward pass of their own (`ablate/lm/model/fast/rhn_window.py`). x's product,
all steps at once, is left to autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register, setting
from ablate.lm.components.backbone._layers import gate_masks
from ablate.lm.model.fast.rhn_window import RhnWindow
from ablate.lm.model.fast.steps import by_kernel, plain_product
from ablate.lm.model.width import first_range


@dataclass(frozen=True, kw_only=True)
class RhnConfig:
    """One recurrent highway layer."""

    units: int = setting(830, doc="units of the state", low=1)
    depth: int = setting(10, doc="micro-steps per word", low=1, high=1000)
    transform_bias: float = setting(
        -2.0, doc="initial b_t; below 0, most of the state is carried over", low=-100, high=100
    )
    initial_range: float = setting(
        0.04, doc="all other parameters, b_h included, start uniform in +- this", low=0
    )


def micro_step(pre_BD: Tensor, s_BH: Tensor) -> Tensor:
    """Return the next state, from the pre-activations of h and t side by side."""
    h, t = pre_BD.chunk(2, -1)
    t = t.sigmoid()
    return h.tanh() * t + s_BH * (1 - t)


def plain_window(
    first_TBD: Tensor, s_BH: Tensor, mask_SBH: Tensor | None, *parameters: Tensor
) -> Tensor:
    """The state after every step. `first_TBD` is the input's part of each first micro-step, with
    its bias; the parameters are all matrices, and the biases from the second micro-step on."""
    depth, states = (len(parameters) + 1) // 2, []
    for first_BD in first_TBD:
        added = (first_BD, *parameters[depth:])
        for weight, bias in zip(parameters[:depth], added, strict=True):
            s_BH = micro_step(plain_product(s_BH, weight, mask_SBH) + bias, s_BH)
        states.append(s_BH)
    return torch.stack(states)


def window(
    x_TBE: Tensor,
    s_BH: Tensor,
    mask_SBE: Tensor | None,
    mask_SBH: Tensor | None,
    weight_ih: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
) -> Tensor:
    """The state after every step; all steps share one product with the input, and one backwards."""
    if mask_SBE is None:
        first_TBD = F.linear(x_TBE, weight_ih, biases[0])
    else:
        first_TBD = plain_product(x_TBE, weight_ih, mask_SBE) + biases[0]
    return by_kernel(RhnWindow, plain_window, first_TBD, s_BH, mask_SBH, *weights, *biases[1:])


@register(
    "backbone",
    "rhn",
    config=RhnConfig,
    paper="zilly2017rhn",
    equation="Eq. 6-8, coupled carry gate",
    departures=(
        "b_t starts at -2, as in the authors' TensorFlow code for Penn Treebank; their Torch "
        "script has -4",
    ),
)
@final
class Rhn(Backbone):
    """One layer; the state is (s,). The mask "recurrent/1" is the same at all steps and micro-steps
    and acts on s as the matrices read it; the s that is carried over is not masked."""

    sites = frozenset({"output", "recurrent", "weight"})
    num_gates = 2

    def __init__(self, config: RhnConfig, shapes: Shapes) -> None:
        super().__init__()
        self.widths = (config.units,)
        self.depth = config.depth
        self.transform_bias = config.transform_bias
        self.initial_range = config.initial_range
        gates = 2 * config.units
        self.weight_ih = nn.Parameter(torch.empty(gates, shapes.embedding))
        for level in range(1, config.depth + 1):
            weight, bias = torch.empty(gates, config.units), torch.empty(gates)
            self.register_parameter(f"weight_hh_{level}", nn.Parameter(weight))
            self.register_parameter(f"bias_{level}", nn.Parameter(bias))

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        (s_1BH,) = state
        on_x, on_s = gate_masks(self, 0, inputs_TBE, self.widths[0], masks)
        weights, biases = self._levels(masks)
        output = window(inputs_TBE, s_1BH[0], on_x, on_s, self.weight_ih, weights, biases)
        return (output,), (masks("output", output),), (output[-1:],)

    def initialize(self, draw: Draw) -> None:
        (units,) = self.widths
        for name, parameter in self.named_parameters():
            bound = first_range(parameter, self.initial_range, units)
            parameter.data.uniform_(-bound, bound, generator=draw(name))
            if name.startswith("bias"):
                # The first half of a bias is b_h, the second b_t.
                parameter.data[units:] = self.transform_bias

    def _levels(self, masks: Masks) -> tuple[list[Tensor], list[Tensor]]:
        """The recurrent matrices and the biases, micro-step by micro-step."""
        names = [f"weight_hh_{level}" for level in range(1, self.depth + 1)]
        weights = [masks.weight(name, getattr(self, name)) for name in names]
        return weights, [getattr(self, f"bias_{n}") for n in range(1, self.depth + 1)]
