"""The parts of a Transformer's layer that are not attention: norms, and a layer for each step.

    layer norm     g (x - mean x) / sqrt(var x + epsilon) + b    Ba et al. 2016
    RMS norm       g x / sqrt(mean x^2 + epsilon)                Zhang and Sennrich 2019
    gelu           W_2 gelu(W_1 x); `gelu_tanh` computes gelu as GPT-2's code does, by a tanh
    relu_squared   W_2 max(0, W_1 x)^2                           So et al. 2021
    swiglu         W_2 (silu(W_g x) * W_1 x)                     Shazeer 2020, Eq. 6

Shape suffixes: T steps, B rows, H units, F units within the feed-forward layer.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import Draw, Masks
from ablate.lm.components.backbone._attention import CausalAttention, Turns
from ablate.lm.model.width import first_range

FEED_FORWARD = ("gelu", "gelu_tanh", "relu_squared", "swiglu")
GATED = "swiglu"


def default_width(kind: str, units: int) -> int:
    """Four times the units; 8/3 times them for three matrices, which are then as large as two."""
    return round(8 * units / 3) if kind == GATED else 4 * units


@final
class Norm(nn.Module):
    """A norm of vectors, `layer` or `rms`, with or without parameters."""

    def __init__(self, kind: str, units: int, epsilon: float, *, scale: bool, bias: bool) -> None:
        super().__init__()
        self.kind, self.epsilon = kind, epsilon
        self.scale = nn.Parameter(torch.empty(units)) if scale else None
        # The RMS norm subtracts no mean, and adds no bias.
        shifted = scale and bias and kind == "layer"
        self.bias = nn.Parameter(torch.empty(units)) if shifted else None

    def forward(self, x_TBH: Tensor) -> Tensor:
        shape = x_TBH.shape[-1:]
        if self.kind == "rms":
            return F.rms_norm(x_TBH, shape, self.scale, self.epsilon)
        return F.layer_norm(x_TBH, shape, self.scale, self.bias, self.epsilon)

    def initialize(self, draw: Draw) -> None:
        """Start as the norm without parameters."""
        for name, parameter in self.named_parameters():
            parameter.data.fill_(1 if name == "scale" else 0)


@final
class FeedForward(nn.Module):
    """One layer for each step: W_1 (`inner`), W_g (`gate`) and W_2 (`out`)."""

    def __init__(
        self,
        kind: str,
        units: int,
        width: int,
        *,
        biases: bool,
        initial_range: float | None,
        output_scale: float,
    ) -> None:
        super().__init__()
        self.kind, self.initial_range, self.output_scale = kind, initial_range, output_scale
        shapes = {"inner": (width, units), "gate": (width, units), "out": (units, width)}
        for name, shape in shapes.items():
            used = name != "gate" or kind == GATED
            weight = nn.Parameter(torch.empty(shape)) if used else None
            bias = nn.Parameter(torch.empty(shape[0])) if used and biases else None
            self.register_parameter(name, weight)
            self.register_parameter(f"{name}_bias", bias)

    def forward(self, x_TBH: Tensor) -> Tensor:
        inner_TBF = self._product(x_TBH, "inner")
        if self.kind == GATED:
            active_TBF = F.silu(self._product(x_TBH, "gate")) * inner_TBF
        elif self.kind == "relu_squared":
            active_TBF = F.relu(inner_TBF).square()
        else:
            by = "tanh" if self.kind == "gelu_tanh" else "none"
            active_TBF = F.gelu(inner_TBF, approximate=by)
        return self._product(active_TBF, "out")

    def _product(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, getattr(self, name), getattr(self, f"{name}_bias"))

    def initialize(self, draw: Draw) -> None:
        """Draw the matrices; biases start at 0."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.data.zero_()
                continue
            bound = first_range(parameter, self.initial_range, parameter.shape[1])
            bound *= self.output_scale if name == "out" else 1
            parameter.data.uniform_(-bound, bound, generator=draw(name))


@final
class Block(nn.Module):
    """A layer: x + attention(norm(x)), and to that its feed-forward layer in the same way."""

    def __init__(
        self, norms: tuple[Norm, Norm], attention: CausalAttention, feed_forward: FeedForward
    ) -> None:
        super().__init__()
        self.attention_norm, self.feed_forward_norm = norms
        self.attention, self.feed_forward = attention, feed_forward

    def forward(
        self,
        x_TBH: Tensor,
        turns: Turns | None,
        added_TBV: Tensor | None,
        dropout: tuple[Masks, str, float],
    ) -> Tensor:
        """The stream after the layer. `dropout` is of what is added: masks, their name, a rate."""
        masks, name, rate = dropout
        read_TBH = self.attention(self.attention_norm(x_TBH), turns, added_TBV)
        x_TBH = x_TBH + masks.dropout(f"{name}/attention", read_TBH, rate)
        fed_TBH = self.feed_forward(self.feed_forward_norm(x_TBH))
        return x_TBH + masks.dropout(f"{name}/feed_forward", fed_TBH, rate)
