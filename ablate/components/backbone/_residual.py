"""Shared by backbones of residual blocks: how blocks are run, and their short convolution.

    x <- x + block(norm(x)) for every block, and at the end x <- norm(x)

A layer's output is x after its block, and that of the last layer is normalized: masks between
layers act on the sum, not on what the block adds. Where the word vectors have another width than
the blocks, a matrix without bias reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.components import Backbone, Draw, Masks, Outputs, State
from ablate.components.backbone import _layers as layers
from ablate.model.fast.precision import full

EPSILON = 1e-5  # of norms
Norm = nn.LayerNorm | nn.RMSNorm


class Stack(nn.Module):
    """The blocks of a backbone, what the first one reads, and the last norm."""

    blocks: Any  # modules that are called with x and their states, and give their first states

    def __init__(self, embedding: int, blocks: Sequence[nn.Module], last_norm: Norm) -> None:
        super().__init__()
        (units,) = last_norm.normalized_shape
        same = embedding == units
        self.weight_ih = None if same else nn.Parameter(torch.empty(units, embedding))
        self.blocks = nn.ModuleList(blocks)
        self.last_norm = last_norm

    def initial_state(self, rows: int) -> State:
        """Every block's states before the first word."""
        return tuple(state for block in self.blocks for state in block.initial_state(rows))

    def run(self, backbone: Backbone, inputs_TBE: Tensor, state: State, masks: Masks) -> Outputs:
        """Run the blocks in turn; each takes x and its own states, and returns both."""

        def layer(number: int, x_TBH: Tensor, states: State) -> tuple[Tensor, ...]:
            x_TBH, *after = self.blocks[number](x_TBH, states)
            is_last = number == len(self.blocks) - 1
            return (self.last_norm(x_TBH) if is_last else x_TBH), *after

        weight = self.weight_ih
        x_TBH = inputs_TBE if weight is None else full(F.linear(inputs_TBE, weight))
        return layers.run(backbone, x_TBH, state, masks, layer)

    def initialize(self, draw: Draw) -> None:
        """Its own parameters; every block draws its own."""
        self.last_norm.reset_parameters()
        if self.weight_ih is not None:
            draw_uniform(self, draw, "weight_ih")


def draw_uniform(module: nn.Module, draw: Draw, *names: str) -> None:
    """Draw matrices uniformly within 1/sqrt(inputs) of 0, each from the stream named after it."""
    for name in names:
        parameter = module.get_parameter(name)
        bound = parameter[0].numel() ** -0.5
        parameter.data.uniform_(-bound, bound, generator=draw(name))


class Convolution(nn.Module):
    """y_t = sum_k w_k x_{t-k} + b in every channel, over `width` words; a width of 1 is off.

    Its state is the inputs before the window, [width - 1, B, C].
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.channels, self.width = channels, width
        self.weight = nn.Parameter(torch.empty(channels, width)) if width > 1 else None
        self.bias = nn.Parameter(torch.empty(channels)) if width > 1 else None

    def before(self, rows: int, like: Tensor) -> Tensor:
        """Zeros before the first word, on the device of `like`."""
        return like.new_zeros(self.width - 1, rows, self.channels)

    def forward(self, x_TBC: Tensor, before_KBC: Tensor) -> tuple[Tensor, Tensor]:
        """The window's outputs, and the inputs that the next window needs."""
        if self.weight is None or self.bias is None:
            return x_TBC, before_KBC
        read_SBC, num_steps = torch.cat((before_KBC, full(x_TBC))), len(x_TBC)
        y_TBC = self.bias
        for start, weight_C in enumerate(self.weight.flip(1).unbind(1)):  # the oldest word first
            y_TBC = torch.addcmul(y_TBC, read_SBC[start : start + num_steps], weight_C)
        return y_TBC, read_SBC[num_steps:]

    def initialize(self, draw: Draw) -> None:
        """As torch initializes a convolution: uniform within 1/sqrt(width)."""
        for name, parameter in self.named_parameters():
            bound = self.width**-0.5
            parameter.data.uniform_(-bound, bound, generator=draw(name))
