"""A recurrent network whose step from state to state is several layers deep (Pascanu et al. 2014).

    l_1 = f(U_1 h + W_1 x + b_1),    l_k = f(U_k l_{k-1} + S_k h + W_k x + b_k),    h' = l_K

h is the state before the word x. S_k are the shortcuts around the layers: with them this is the
paper's DT(S)-RNN, without them its DT-RNN. Which layers read x is a setting (`inputs`); with
"slices" a word vector is as long as all layers together, and each layer adds its own part of it.
With K = 1 this is a simple recurrent network (`elman`). The paper's deep output, a hidden layer
that reads the state and the word, is `bridge = "dual"`; both together are its DOT(S)-RNN.

Sources: the formula and the choices of `inputs` are those of the multi-layer recurrent layers of
GroundHog, the authors' public code (BSD-3), whose tutorial has two layers, shortcuts, slices and
the sigmoid. Not known here: the sizes, the nonlinearity, the noise and the rates of the paper's
model of words, and whether its output was made of rectified or of Lp units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import (
    Backbone,
    CombinationError,
    Draw,
    Masks,
    Outputs,
    Shapes,
    State,
    register,
    setting,
)
from ablate.lm.model.activation import ACTIVATIONS, Activation
from ablate.lm.model.fast.steps import masked
from ablate.lm.model.width import first_range

Level = tuple[Tensor, Tensor | None]  # of a layer: U, and S if it has a shortcut


@dataclass(frozen=True, kw_only=True)
class DeepTransitionConfig:
    """The layers between two states, and what each of them reads."""

    depth: int = setting(2, doc="K: layers from one state to the next", low=1, high=100)
    units: int = setting(200, doc="units of the state, and of the layers before it", low=1)
    inner_units: int | None = setting(
        None, doc="units of the layers before the state, if different", low=1
    )
    activation: str = setting("sigmoid", doc="nonlinearity f", choices=ACTIVATIONS)
    shortcut: bool = setting(True, doc="every layer reads the state too (S)")
    inputs: str = setting(
        "all",
        doc="layers that read the word vector through a matrix; slices: each layer adds a part of "
        "it, without a matrix",
        choices=("all", "first", "last", "slices"),
    )
    bias: bool = setting(True, doc="one bias per unit")
    initial_range: float | None = setting(
        None, doc="parameters start uniform in +- this; none: 1/sqrt(units)", low=0
    )


def widths_of(config: DeepTransitionConfig, shapes: Shapes) -> tuple[int, ...]:
    """The units of each layer of the transition, checked against the word vectors."""
    inner = config.units if config.inner_units is None else config.inner_units
    widths = (inner,) * (config.depth - 1) + (config.units,)
    if config.inputs == "slices" and sum(widths) != shapes.embedding:
        raise CombinationError(
            f"backbone.inputs = 'slices' gives every layer its own part of a word vector: the "
            f"layers have {list(widths)} units, {sum(widths)} in total, but embedding.size = "
            f"{shapes.embedding}. Instead: embedding.size = {sum(widths)}, or inputs = 'all'."
        )
    return widths


def readers_of(inputs: str, depth: int) -> range:
    """The layers, from 0, that read x through a matrix."""
    spans = {"all": range(depth), "first": range(1), "last": range(depth - 1, depth)}
    return spans.get(inputs, range(0))


def transition(
    h_BH: Tensor, terms: Sequence[Tensor], levels: Sequence[Level], f: Activation
) -> Tensor:
    """h' from h and from what each layer adds for the word."""
    below = h_BH
    for term_BW, (weight, shortcut) in zip(terms, levels, strict=True):
        sum_BW = term_BW + F.linear(below, weight)
        below = f(sum_BW if shortcut is None else sum_BW + F.linear(h_BH, shortcut))
    return below


@register(
    "backbone",
    "deep_transition",
    config=DeepTransitionConfig,
    paper="pascanu2014deep",
    equation="DT-RNN and DT(S)-RNN; the formula from the authors' public code",
    departures=("the sizes and the nonlinearity of the paper's model of words are not known here",),
)
@final
class DeepTransition(Backbone):
    """One recurrent layer; the state is (h,), [1, B, H]. The mask "recurrent/1" acts on h as the
    matrices read it, U_1 and all S."""

    sites = frozenset({"output", "recurrent", "weight"})

    def __init__(self, config: DeepTransitionConfig, shapes: Shapes) -> None:
        super().__init__()
        self.config = config
        self.layer_widths = widths_of(config, shapes)
        self.widths = (config.units,)
        self.f = Activation(config.activation)
        readers = readers_of(config.inputs, config.depth)
        below = (config.units, *self.layer_widths[:-1])
        for level, (width_in, width) in enumerate(zip(below, self.layer_widths, strict=True)):
            self._add(f"weight_hh_{level + 1}", width, width_in)
            if config.shortcut and level > 0:
                self._add(f"weight_shortcut_{level + 1}", width, config.units)
            if level in readers:
                self._add(f"weight_ih_{level + 1}", width, shapes.embedding)
            if config.bias:
                self._add(f"bias_{level + 1}", width)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        (h_1BH,) = state
        mask = masks.locked("recurrent/1", tuple(h_1BH.shape), inputs_TBE)
        mask_BH = None if mask is None else mask[0]
        # Before the steps, since a mask on a matrix is one for the whole window.
        levels = [self._matrices(number, masks) for number in range(1, self.config.depth + 1)]
        h_BH, steps = h_1BH[0], []
        for terms in zip(*self._input_terms(inputs_TBE), strict=True):
            h_BH = transition(masked(h_BH, mask_BH), terms, levels, self.f)
            steps.append(h_BH)
        output_TBH = torch.stack(steps)
        return (output_TBH,), (masks("output", output_TBH),), (output_TBH[-1:],)

    def initialize(self, draw: Draw) -> None:
        config = self.config
        for name, parameter in self.named_parameters():
            bound = first_range(parameter, config.initial_range, config.units)
            parameter.data.uniform_(-bound, bound, generator=draw(name))

    def _add(self, name: str, *shape: int) -> None:
        self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def _matrices(self, number: int, masks: Masks) -> Level:
        """A layer's recurrent matrices as this update uses them."""
        name = f"weight_shortcut_{number}"
        shortcut = getattr(self, name, None)
        weight = masks.weight(f"weight_hh_{number}", getattr(self, f"weight_hh_{number}"))
        return weight, None if shortcut is None else masks.weight(name, shortcut)

    def _input_terms(self, x_TBE: Tensor) -> list[Tensor]:
        """What each layer adds for the word: W x + b, or its slice of x, at all steps at once."""
        if self.config.inputs == "slices":
            slices = x_TBE.split(self.layer_widths, -1)
            return [x + getattr(self, f"bias_{n}", 0) for n, x in enumerate(slices, 1)]
        return [self._input_term(x_TBE, *layer) for layer in enumerate(self.layer_widths, 1)]

    def _input_term(self, x_TBE: Tensor, number: int, width: int) -> Tensor:
        weight, bias = (getattr(self, f"{k}_{number}", None) for k in ("weight_ih", "bias"))
        if weight is not None:
            return F.linear(x_TBE, weight, bias)
        # A layer that does not read the word adds zeros, so that all layers take the same form.
        zeros = x_TBE.new_zeros(*x_TBE.shape[:2], width)
        return zeros if bias is None else zeros + bias
