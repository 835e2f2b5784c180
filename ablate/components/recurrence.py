"""The simple recurrence x_t = f(u_t + R x_{t-1}) over a window, with its own backward.

Autograd would record three nodes a step and take the gradient of R step by step. Here the steps
write into one buffer, and that gradient is a single product over all of them:

    d_t = f'(.) (g_t + R' d_{t+1}),    dL/du_t = d_t,    dL/dR = sum_t d_t x_{t-1}'

`recurrence_plain` is the same by plain autograd, to step through and to test against.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ablate.components.activation import ACTIVATIONS, Activation
from ablate.components.backbone import one_a_layer
from ablate.components.flow import Draw, Shapes
from ablate.components.precision import in_full
from ablate.components.product import product_over
from ablate.errors import CombinationError
from ablate.fields import setting


@dataclass(frozen=True, kw_only=True)
class RecurrenceConfig:
    """What every backbone of simple recurrent layers lets one choose."""

    num_layers: int = setting(1, doc="layers", low=1)
    units: int | tuple[int, ...] = setting(
        200, doc="units of every layer, or a list with one number a layer", low=1
    )
    activation: str = setting("relu", doc="the nonlinearity f", choices=ACTIVATIONS)
    smoothing: float = setting(
        1.0, doc="the a of the smoothed rectifier max(0, x - a tanh(x / a))", low=1e-6
    )
    inputs: str = setting(
        "matrix",
        doc="the first layer reads the word vectors through a matrix of its own, or as they are",
        choices=("matrix", "embedding"),
    )
    bias: bool = setting(False, doc="a bias for every unit")
    initial_range: float | None = setting(
        None, doc="parameters start uniform in +- this; none: 1/sqrt(units)", low=0
    )
    recurrent_range: float | None = setting(
        None, doc="recurrent weights start uniform in +- this; none: as the others", low=0
    )


def layer_widths(config: RecurrenceConfig, shapes: Shapes) -> tuple[int, ...]:
    """The units of each layer; refuses what fits neither the layers nor the word vectors."""
    widths = one_a_layer(config.units, config.num_layers)
    if config.inputs == "embedding" and widths[0] != shapes.embedding:
        raise CombinationError(
            f"backbone.inputs = 'embedding' adds the word vectors to the units as they are, but "
            f"embedding.size = {shapes.embedding} and the first layer has {widths[0]} units. Set "
            f"embedding.size = {widths[0]}, or backbone.inputs = 'matrix'."
        )
    return widths


def recurrence(
    u_TBH: Tensor, x_BH: Tensor, weight_HH: Tensor, f: Activation, mask_BH: Tensor | None = None
) -> Tensor:
    """Every x_t, [T, B, H]; the mask is on the state as the recurrence reads it."""
    return in_full(_Recurrence, u_TBH, x_BH, weight_HH, mask_BH, f)


def recurrence_plain(
    u_TBH: Tensor, x_BH: Tensor, weight_HH: Tensor, f: Activation, mask_BH: Tensor | None = None
) -> Tensor:
    """The formula, a step at a time."""
    steps = []
    for u_BH in u_TBH.unbind(0):
        x_BH = f(u_BH + F.linear(masked(x_BH, mask_BH), weight_HH))
        steps.append(x_BH)
    return torch.stack(steps)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u_TBH, x_BH, weight_HH, mask_BH, f):
        x_TBH = u_TBH.clone(memory_format=torch.contiguous_format)
        bend_TBH = torch.empty_like(x_TBH) if f.keeps_bend else None
        last_BH, into_HH = x_BH, weight_HH.t()
        for step, out_BH in enumerate(x_TBH.unbind(0)):
            out_BH.addmm_(masked(last_BH, mask_BH), into_HH)
            last_BH = f.apply_(out_BH, None if bend_TBH is None else bend_TBH[step])
        ctx.f = f
        ctx.save_for_backward(bend_TBH, x_TBH, x_BH, weight_HH, mask_BH)
        return x_TBH

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_TBH):  # type: ignore[override]
        bend_TBH, x_TBH, x_BH, weight_HH, mask_BH = ctx.saved_tensors
        delta_TBH = grad_TBH.clone(memory_format=torch.contiguous_format)
        slope_TBH = ctx.f.slope(x_TBH, bend_TBH)
        through_steps_(delta_TBH, slope_TBH, weight_HH, mask_BH)
        _, needs_x, needs_weight, _, _ = ctx.needs_input_grad
        grad_x = grad_weight = None
        if needs_x:
            grad_x = masked(delta_TBH[0] @ weight_HH, mask_BH)
        if needs_weight:
            read_TBH = masked(torch.cat((x_BH[None], x_TBH[:-1])), mask_BH)
            grad_weight = summed_outer(delta_TBH, read_TBH)
        return delta_TBH, grad_x, grad_weight, None, None


def through_steps_(
    delta_TBH: Tensor, slope_TBH: Tensor | None, weight_HH: Tensor, mask_BH: Tensor | None
) -> None:
    """Turn gradients of each step's output, in place, into those before its nonlinearity."""
    deltas = delta_TBH.unbind(0)
    for step in reversed(range(len(deltas))):
        if step + 1 < len(deltas):
            if mask_BH is None:
                deltas[step].addmm_(deltas[step + 1], weight_HH)
            else:
                deltas[step].addcmul_(deltas[step + 1] @ weight_HH, mask_BH)
        if slope_TBH is not None:
            deltas[step].mul_(slope_TBH[step])


def masked(x: Tensor, mask_BH: Tensor | None) -> Tensor:
    """x under a mask, if there is one."""
    return x if mask_BH is None else x * mask_BH


def summed_outer(delta_TBH: Tensor, read_TBI: Tensor) -> Tensor:
    """The gradient of a matrix that maps what was read: sum over tokens of delta read', [H, I]."""
    return product_over(delta_TBH.flatten(0, 1), read_TBI.flatten(0, 1))


def add_input_weights(module: nn.Module, config: RecurrenceConfig, sizes: tuple[int, ...]) -> None:
    """Parameters of what each layer reads; `sizes`: the word vectors' and each layer's."""
    for layer, (width_in, width) in enumerate(pairwise(sizes)):
        if layer > 0 or config.inputs == "matrix":
            weight = nn.Parameter(torch.empty(width, width_in))
            module.register_parameter(f"weight_ih_l{layer}", weight)
        if config.bias:
            module.register_parameter(f"bias_l{layer}", nn.Parameter(torch.empty(width)))


def read_input(module: nn.Module, layer: int, x_TBI: Tensor) -> Tensor:
    """What a layer adds to its recurrence: W x + b, or x as it is."""
    weight = getattr(module, f"weight_ih_l{layer}", None)
    bias = getattr(module, f"bias_l{layer}", None)
    if weight is not None:
        return F.linear(x_TBI, weight, bias)
    return x_TBI if bias is None else x_TBI + bias


def site(layer: int, num_layers: int) -> str:
    """Where the mask on a layer's output is asked for."""
    return "output" if layer == num_layers - 1 else f"hidden/{layer + 1}"


def initialize_weights(module: nn.Module, config: RecurrenceConfig, draw: Draw) -> None:
    """Every parameter from its own stream; recurrent ones in their own range."""
    for name, parameter in module.named_parameters(recurse=False):
        recurrent = not name.startswith(("weight_ih", "bias"))
        ranges = (config.recurrent_range if recurrent else None, config.initial_range)
        given = [bound for bound in ranges if bound is not None]
        bound = given[0] if given else parameter.shape[0] ** -0.5
        parameter.data.uniform_(-bound, bound, generator=draw(name))


def take_share(parameter: nn.Parameter, share: float) -> None:
    """Let a parameter learn at a share of the rate; at none it is fixed, and asks no gradient."""
    parameter.rate_scale = share  # type: ignore[attr-defined]
    parameter.requires_grad_(share > 0)
