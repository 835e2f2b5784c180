"""What stacked layers of gates share: their config, their parameters, and where masks go."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ablate.components.backbone import Backbone, one_a_layer
from ablate.components.flow import Draw
from ablate.components.regularizer import Masks
from ablate.fields import setting

Weights = tuple[Tensor, Tensor, Tensor, Tensor | None]  # input, recurrent, and one bias or two


@dataclass(frozen=True, kw_only=True)
class LayersConfig:
    """Layers of gates, and how their parameters start."""

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


def layer_units(config: LayersConfig) -> tuple[int, ...]:
    """The units of each layer."""
    widths = one_a_layer(config.units, config.num_layers)
    return widths if config.last_units is None else (*widths[:-1], config.last_units)


def add_layers(module: Backbone, num_inputs: int, widths: tuple[int, ...], biases: int) -> None:
    """Every layer's parameters, uninitialised, by torch's names for them."""
    gates = module.num_gates
    for layer, (inputs, units) in enumerate(zip((num_inputs, *widths), widths, strict=False)):
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (gates * units, inputs),
            "weight_hh": (gates * units, units),
            "bias_ih": (gates * units,),
        }
        shapes |= {"bias_hh": (gates * units,)} if biases == 2 else {}
        for kind, shape in shapes.items():
            module.register_parameter(f"{kind}_l{layer}", nn.Parameter(torch.empty(shape)))


def draw_layers(
    module: Backbone, widths: tuple[int, ...], initial_range: float | None, draw: Draw
) -> None:
    """Every parameter uniform, from the stream of its own name."""
    for name, parameter in module.named_parameters():
        units = widths[int(name.rpartition("_l")[2])]
        bound = units**-0.5 if initial_range is None else initial_range
        parameter.data.uniform_(-bound, bound, generator=draw(name))


def layer_weights(module: Backbone, layer: int, masks: Masks) -> Weights:
    """A layer's parameters as this update uses them."""
    recurrent = f"weight_hh_l{layer}"
    return (
        module.get_parameter(f"weight_ih_l{layer}"),
        masks.weight(recurrent, module.get_parameter(recurrent)),
        module.get_parameter(f"bias_ih_l{layer}"),
        getattr(module, f"bias_hh_l{layer}", None),
    )


def gate_masks(
    module: Backbone, layer: int, x_TBI: Tensor, units: int, masks: Masks
) -> tuple[Tensor | None, Tensor | None]:
    """The masks on what a layer's gates read, of its input and of its state: one for each gate,
    or one for all."""
    _, rows, inputs = x_TBI.shape
    site = f"hidden/{layer}" if layer else "input"
    return (
        masks.held(f"gates/{site}", (module.num_gates, rows, inputs), x_TBI),
        masks.held(f"recurrent/{layer + 1}", (module.num_gates, rows, units), x_TBI),
    )


def output_site(layer: int, num_layers: int) -> str:
    """Where the mask on a layer's output is asked for."""
    return "output" if layer == num_layers - 1 else f"hidden/{layer + 1}"
