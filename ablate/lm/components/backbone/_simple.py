"""Shared by the backbones of simple recurrent layers: config, input weights, initial values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import CombinationError, Draw, Shapes, setting
from ablate.lm.components.backbone import _layers as layers
from ablate.lm.model.activation import ACTIVATIONS
from ablate.lm.model.width import first_range


@dataclass(frozen=True, kw_only=True)
class RecurrenceConfig:
    """The settings that all backbones of simple recurrent layers have."""

    num_layers: int = setting(1, doc="number of layers", low=1, high=1000)
    units: int | tuple[int, ...] = setting(
        200, doc="units of every layer, or a list with one number per layer", low=1
    )
    activation: str = setting("relu", doc="nonlinearity f", choices=ACTIVATIONS)
    smoothing: float = setting(
        1.0, doc="a in the smoothed rectifier max(0, x - a tanh(x / a))", low=1e-6
    )
    inputs: str = setting(
        "matrix",
        doc="the first layer reads the word vectors through an input matrix, or directly",
        choices=("matrix", "embedding"),
    )
    bias: bool = setting(False, doc="one bias per unit")
    initial_range: float | None = setting(
        None, doc="parameters start uniform in +- this; none: 1/sqrt(units)", low=0
    )
    recurrent_range: float | None = setting(
        None, doc="recurrent weights start uniform in +- this; none: as all others", low=0
    )


def widths_of(config: RecurrenceConfig, shapes: Shapes) -> tuple[int, ...]:
    """The units of each layer, checked against the number of layers and the word vectors."""
    widths = layers.widths_of(config.units, config.num_layers)
    if config.inputs == "embedding" and widths[0] != shapes.embedding:
        raise CombinationError(
            f"backbone.inputs = 'embedding' adds the word vectors directly to the units, but "
            f"embedding.size = {shapes.embedding} and the first layer has {widths[0]} units. "
            f"Instead: set embedding.size = {widths[0]}, or backbone.inputs = 'matrix'."
        )
    return widths


def add_input_weights(module: nn.Module, config: RecurrenceConfig, sizes: tuple[int, ...]) -> None:
    """Register each layer's input weights; `sizes` are the word vectors' and the layers' widths."""
    for layer, (width_in, width) in enumerate(pairwise(sizes)):
        if layer > 0 or config.inputs == "matrix":
            weight = nn.Parameter(torch.empty(width, width_in))
            module.register_parameter(f"weight_ih_l{layer}", weight)
        if config.bias:
            module.register_parameter(f"bias_l{layer}", nn.Parameter(torch.empty(width)))


def read_input(module: nn.Module, layer: int, x_TBI: Tensor) -> Tensor:
    """A layer's input to its recurrence: W x + b, or x itself."""
    weight = getattr(module, f"weight_ih_l{layer}", None)
    bias = getattr(module, f"bias_l{layer}", None)
    if weight is not None:
        return F.linear(x_TBI, weight, bias)
    return x_TBI if bias is None else x_TBI + bias


def initialize(module: nn.Module, config: RecurrenceConfig, draw: Draw) -> None:
    """Draw every parameter from its own stream; recurrent weights in their own range."""
    for name, parameter in module.named_parameters(recurse=False):
        bound = config.initial_range
        if config.recurrent_range is not None and not name.startswith(("weight_ih", "bias")):
            bound = config.recurrent_range
        # By the units, also of a bias.
        bound = first_range(parameter, bound, parameter.shape[0])
        parameter.data.uniform_(-bound, bound, generator=draw(name))


def scale_rate(parameter: nn.Parameter, share: float) -> None:
    """Train a parameter at a share of the learning rate; at 0 it is fixed and has no gradient."""
    parameter.rate_scale = share  # type: ignore[attr-defined]
    parameter.requires_grad_(share > 0)
