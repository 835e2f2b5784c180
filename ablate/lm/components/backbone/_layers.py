"""Shared by all backbones of stacked layers: widths, parameters and masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ablate.lm.components import Backbone, CombinationError, Draw, Masks, Outputs, State, setting
from ablate.lm.model.fast.precision import autocast_dtype, plainly
from ablate.lm.model.width import first_range

Weights = tuple[Tensor, Tensor, Tensor, Tensor | None]  # input, recurrent, and one bias or two
Layer = Callable[[int, Tensor, State], tuple[Tensor, ...]]


@dataclass(frozen=True, kw_only=True)
class LayersConfig:
    """Gated layers, and how their parameters start."""

    num_layers: int = setting(2, doc="number of layers", low=1, high=1000)
    units: int | tuple[int, ...] = setting(
        200, doc="units of every layer, or a list with one number per layer", low=1
    )
    last_units: int | None = setting(
        None, doc="units of the last layer, if different (AWD: size of the word vectors)", low=1
    )
    biases: int = setting(
        2, doc="bias vectors per gate: 2 as in torch, 1 as in Keras and Chainer", choices=(1, 2)
    )
    initial_range: float | None = setting(
        None, doc="parameters start uniform in +- this; none: 1/sqrt(units), as in torch", low=0
    )


def widths_of(units: int | tuple[int, ...], num_layers: int) -> tuple[int, ...]:
    """The units of each layer; a single number applies to all layers."""
    widths = (units,) * num_layers if isinstance(units, int) else units
    if len(widths) != num_layers:
        raise CombinationError(
            f"backbone.units has {len(widths)} numbers ({list(widths)}), but backbone.num_layers = "
            f"{num_layers}. Instead: one number for all layers, or one per layer."
        )
    return widths


def units_of(config: LayersConfig) -> tuple[int, ...]:
    """The units of each layer, `last_units` included."""
    widths = widths_of(config.units, config.num_layers)
    return widths if config.last_units is None else (*widths[:-1], config.last_units)


def add(module: nn.Module, layer: int, inputs: int, units: int, *, gates: int, biases: int) -> None:
    """Register a layer's parameters, uninitialized, under torch's names."""
    outputs = gates * units
    shapes = {"weight_ih": (outputs, inputs), "weight_hh": (outputs, units), "bias_ih": (outputs,)}
    shapes |= {"bias_hh": (outputs,)} if biases == 2 else {}
    for kind, shape in shapes.items():
        module.register_parameter(f"{kind}_l{layer}", nn.Parameter(torch.empty(shape)))


def initialize(module: Backbone, initial_range: float | None, draw: Draw) -> None:
    """Draw every parameter uniformly, from the stream named after it."""
    for name, parameter in module.named_parameters():
        # A name ends in its layer ("weight_ih_l0"). The bound is by the layer's units, as in torch,
        # also for its input matrix.
        units = module.widths[int(name.rpartition("_l")[2])]
        bound = first_range(parameter, initial_range, units)
        parameter.data.uniform_(-bound, bound, generator=draw(name))


def run(module: Backbone, x_TBI: Tensor, state: State, masks: Masks, layer: Layer) -> Outputs:
    """Run the layers in turn. `layer(number, input, states)` returns its output and last states."""
    raw, masked, last_states = [], [], []
    per_layer, num_layers = module.states_per_layer, len(module.widths)
    for number in range(num_layers):
        states = state[per_layer * number : per_layer * (number + 1)]
        output, *last = layer(number, x_TBI, states)
        site = "output" if number == num_layers - 1 else f"hidden/{number + 1}"
        x_TBI = masks(site, output)
        raw.append(output)
        masked.append(x_TBI)
        last_states += last
    return tuple(raw), tuple(masked), tuple(last_states)


def fused(kernel: Callable, x_TBI: Tensor, state: Tensor | State, weights: Weights) -> tuple:
    """One layer over a window by torch's fused kernel: its outputs and last states.

    On a GPU in float32: autocast would have cuDNN compute in float16, whatever its dtype is, and
    small gradients would become 0.
    """
    if x_TBI.device.type != "cpu" and autocast_dtype(x_TBI.device) is not None:
        return plainly(fused, kernel, x_TBI, state, weights)
    *matrices, bias_ih, bias_hh = weights
    second = torch.zeros_like(bias_ih) if bias_hh is None else bias_hh  # the kernels take two
    parameters = [*matrices, bias_ih, second]
    # After the parameters: has_biases, num_layers, dropout, train, bidirectional, batch_first.
    return kernel(x_TBI, state, parameters, True, 1, 0.0, torch.is_grad_enabled(), False, False)


def weights_of(module: Backbone, layer: int, masks: Masks) -> Weights:
    """A layer's parameters as this update uses them."""
    recurrent = f"weight_hh_l{layer}"
    return (
        getattr(module, f"weight_ih_l{layer}"),
        # Recurrent matrices alone can be dropped: this is the weight drop of AWD-LSTM.
        masks.weight(recurrent, getattr(module, recurrent)),
        getattr(module, f"bias_ih_l{layer}"),
        getattr(module, f"bias_hh_l{layer}", None),
    )


def gate_masks(
    module: Backbone, layer: int, x_TBI: Tensor, units: int, masks: Masks
) -> tuple[Tensor | None, Tensor | None]:
    """The masks on the input and on the state that a layer's gates read: one per gate, or one for
    all gates."""
    _, rows, inputs = x_TBI.shape
    below = layer + module.layers_below
    # Named after what the gates read: the layer below, or the word vectors.
    site = f"hidden/{below}" if below else "input"
    return (
        masks.locked(f"gates/{site}", (module.num_gates, rows, inputs), x_TBI),
        masks.locked(f"recurrent/{layer + 1}", (module.num_gates, rows, units), x_TBI),
    )
