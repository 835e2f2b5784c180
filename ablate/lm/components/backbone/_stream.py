"""Shared by the backbones of residual layers: the stream through them, norms, short convolutions.

    x <- x + f(norm(x))        x is the stream; a layer's output is the stream after it

Shape suffixes: T steps, B rows, E units of a word vector, H units of the stream, A heads, D units
of a head, C channels, K steps of a convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import Backbone, CombinationError, Draw, Masks, Outputs, State
from ablate.lm.model.fast.precision import autocast_dtype, full
from ablate.lm.model.width import by_width


def initial_state(layers: Iterable[Any], rows: int) -> State:
    """The states of all layers, the first layer's first."""
    return tuple(tensor for layer in layers for tensor in layer.initial_state(rows))


def run(
    layers: nn.ModuleList,
    norm: nn.Module,
    x_TBH: Tensor,
    state: State,
    masks: Masks,
    apply: Callable[[Any, Tensor, State], tuple[Tensor, State]],
) -> Outputs:
    """Run the layers in turn, and norm the last one's output. `apply(layer, input, states)` returns
    a layer's output and its states after the window."""
    raw, masked, after, rest, x_TBH = [], [], [], iter(state), full(x_TBH)
    for number, layer in enumerate(layers, 1):
        own = tuple(next(rest) for _ in initial_state([layer], 1))
        x_TBH, last = apply(layer, x_TBH, own)
        is_last = number == len(layers)
        raw.append(norm(x_TBH) if is_last else x_TBH)
        x_TBH = masks("output" if is_last else f"hidden/{number}", raw[-1])
        masked.append(x_TBH)
        after += last
    return tuple(raw), tuple(masked), tuple(after)


class Stack(nn.Module):
    """Blocks that add to the stream by themselves, the matrix before the first, and the last norm.

    A block is called with the stream and its states, and returns the stream and its states after
    the window.
    """

    blocks: Any

    def __init__(self, embedding: int, blocks: Sequence[nn.Module], last_norm: Norm) -> None:
        super().__init__()
        (units,) = last_norm.shape
        same = embedding == units
        self.weight_ih = None if same else nn.Parameter(torch.empty(units, embedding))
        self.blocks = nn.ModuleList(blocks)
        self.last_norm = last_norm

    def initial_state(self, rows: int) -> State:
        """Every block's states before the first word."""
        return initial_state(self.blocks, rows)

    def run(self, inputs_TBE: Tensor, state: State, masks: Masks) -> Outputs:
        """Run the blocks in turn."""

        def apply(block: Any, x_TBH: Tensor, states: State) -> tuple[Tensor, State]:
            x_TBH, *after = block(x_TBH, states)
            return x_TBH, tuple(after)

        weight = self.weight_ih
        x_TBH = inputs_TBE if weight is None else F.linear(inputs_TBE, weight)
        return run(self.blocks, self.last_norm, x_TBH, state, masks, apply)

    def initialize(self, draw: Draw) -> None:
        """Its own matrix; every block and norm draws its own."""
        if self.weight_ih is not None:
            draw_uniform(self, draw, "weight_ih")


def draw_uniform(module: nn.Module, draw: Draw, *names: str) -> None:
    """Draw matrices uniformly within 1/sqrt(inputs) of 0, each from the stream named after it."""
    for name in names:
        parameter = module.get_parameter(name)
        bound = parameter[0].numel() ** -0.5
        parameter.data.uniform_(-bound, bound, generator=draw(name))


def group(backbone: Backbone, name: str) -> str:
    """A parameter's group for penalties: all vectors (scales, rates) belong to the biases."""
    if backbone.get_parameter(name).dim() == 1:
        return "bias"
    return "recurrent_input" if name.startswith(("enter", "stack.weight_ih")) else "recurrent"


def entrance(embedding: int, units: int, deviation: float, *, falls: float = 0.5) -> nn.Module:
    """From word vectors to the stream: a matrix, unless both are as wide."""
    same = embedding == units
    return nn.Identity() if same else Linear(embedding, units, deviation, falls=falls)


def units_per_head(units: int, heads: int) -> int:
    """How many units each head has; the heads must divide them."""
    if units % heads:
        raise CombinationError(
            f"backbone.heads = {heads} does not divide backbone.units = {units}. Instead: a number "
            "of heads that does."
        )
    return units // heads


def in_float32(function: Callable[..., Any], *arguments: Tensor) -> Any:
    """Call a function of tensors outside autocast, none of them in half precision: recurrences sum
    over a whole text, and triangular systems have no half precision at all."""
    device = arguments[0].device
    if autocast_dtype(device) is None:
        return function(*arguments)
    with torch.autocast(device.type, enabled=False):
        return function(*map(full, arguments))


def by_head(x_TBC: Tensor, heads: int) -> Tensor:
    """Channels, cut into heads, before the steps: [B, A, T, D]."""
    return x_TBC.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)


def in_chunks(
    chunk: Callable[..., tuple[Tensor, Any]], size: int, inputs: Sequence[Tensor], state: Any
) -> tuple[Tensor, Any]:
    """Run a window [B, A, T, ...] chunk by chunk: `chunk(*inputs, state)` returns the chunk's
    outputs and the state after it."""
    outputs = []
    for pieces in zip(*(x.split(size, dim=2) for x in inputs), strict=True):
        output, state = chunk(*pieces, state)
        outputs.append(output)
    return torch.cat(outputs, 2), state


@final
class Linear(nn.Module):
    """x W' + b, with W initially normal of this standard deviation, which `falls` with the width
    (`by_width`), and b 0."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        deviation: float,
        *,
        falls: float = 0.5,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.deviation, self.falls = deviation, falls
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return x W' + b."""
        return F.linear(x, self.weight, self.bias)

    def initialize(self, draw: Draw) -> None:
        """Draw W, and set b to 0."""
        deviation = self.deviation * by_width(self.weight, self.falls)
        self.weight.data.normal_(0, deviation, generator=draw("weight"))
        if self.bias is not None:
            self.bias.data.zero_()


@final
class Norm(nn.Module):
    """Each vector over the root of its mean square, after its mean is subtracted if `centred`;
    times a scale, plus a bias. Of vectors of several heads, [..., A, D], each by itself."""

    def __init__(
        self,
        *shape: int,
        centred: bool,
        bias: bool = False,
        epsilon: float = 1e-5,
        start: float = 1.0,
    ) -> None:
        super().__init__()
        self.shape, self.centred, self.epsilon, self.start = shape, centred, epsilon, start
        units = torch.Size(shape).numel()
        # Flat, so that an optimizer of matrices (muon) does not take it for one.
        self.scale = nn.Parameter(torch.empty(units))
        self.bias = nn.Parameter(torch.empty(units)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the normed vectors, in float32 or better."""
        x, size = full(x), self.shape[-1:]
        normed = F.layer_norm if self.centred else F.rms_norm
        x = normed(x, size, eps=self.epsilon) * self.scale.view(self.shape)
        return x if self.bias is None else x + self.bias.view(self.shape)

    def initialize(self, draw: Draw) -> None:
        """The scale starts at `start`, the bias at 0."""
        self.scale.data.fill_(self.start)
        if self.bias is not None:
            self.bias.data.zero_()


@final
class ShortConvolution(nn.Module):
    """A causal convolution of each channel by itself: y_t = sum_i w_i x_{t-i} + b. A length of 1 is
    off."""

    def __init__(self, channels: int, length: int, *, bias: bool = False) -> None:
        super().__init__()
        self.channels, self.length = channels, length
        on = length > 1
        # The middle dimension is torch's: a kernel is no matrix.
        self.weight = nn.Parameter(torch.empty(channels, 1, length)) if on else None
        self.bias = nn.Parameter(torch.empty(channels)) if on and bias else None

    def initial_state(self, rows: int, like: Tensor) -> Tensor:
        """The inputs before the first, [K - 1, B, C]: zeros, on the device of `like`."""
        return like.new_zeros(self.length - 1, rows, self.channels)

    def forward(self, x_TBC: Tensor, before_KBC: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs, and the last inputs, which the next window's first outputs need."""
        if self.weight is None:
            return x_TBC, before_KBC
        read_SBC, steps = torch.cat((before_KBC, full(x_TBC))), len(x_TBC)
        oldest_C, *newer = self.weight[:, 0].flip(1).unbind(1)
        y_TBC = read_SBC[:steps] * oldest_C
        for start, weight_C in enumerate(newer, 1):
            y_TBC = torch.addcmul(y_TBC, read_SBC[start : start + steps], weight_C)
        y_TBC = y_TBC if self.bias is None else y_TBC + self.bias
        return y_TBC, read_SBC[steps:]

    def initialize(self, draw: Draw) -> None:
        """Draw uniformly in +- 1/sqrt(K), as torch's convolution."""
        bound = self.length**-0.5
        for name, parameter in self.named_parameters():
            parameter.data.uniform_(-bound, bound, generator=draw(name))
