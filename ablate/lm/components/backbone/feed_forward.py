"""A window of the last words, without recurrence: feed-forward and log-bilinear models.

    x = [E w_t, E w_{t-1}, ..., E w_{t-n+2}]        the n - 1 words that an n-gram model reads
    h = f(x H' + d)                                 Bengio et al. 2003
    h = sum_i C_i E w_{t-i}                         Mnih and Hinton 2007: f = identity, no bias

C_i are the blocks of H; with `diagonal` each is a diagonal matrix. With `concatenated` there is no
H, and h = f(x), for a head that reads the whole window (`sum_product`). The words before the text's
first are zero vectors, and windows run across the ends of sentences.
"""

from __future__ import annotations

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
from ablate.lm.model.width import first_range


@dataclass(frozen=True, kw_only=True)
class FeedForwardConfig:
    """The length of the window, and the layer that reads it."""

    order: int = setting(5, doc="n: predict each word from the n - 1 words before it", low=2)
    units: int = setting(200, doc="units of the layer", low=1)
    activation: str = setting("tanh", doc="nonlinearity f", choices=ACTIVATIONS)
    bias: bool = setting(True, doc="one bias per unit")
    diagonal: bool = setting(False, doc="each word's matrix is diagonal; units as a word vector's")
    concatenated: bool = setting(
        False, doc="no matrix: the output is the window's word vectors, as many units in all"
    )
    initial_range: float | None = setting(
        None, doc="parameters start uniform in +- this; none: 1/sqrt(inputs)", low=0
    )


def windows_of(vectors_SBE: Tensor, length: int) -> Tensor:
    """The last `length` vectors of every step from `length - 1` on, the newest first,
    [S - length + 1, B, length, E]."""
    return vectors_SBE.unfold(0, length, 1).flip(-1).transpose(2, 3)


@register(
    "backbone",
    "feed_forward",
    config=FeedForwardConfig,
    paper="bengio2003nnlm",
    equation="Section 2; the log-bilinear model: Mnih and Hinton 2007, Section 4",
    departures=(
        "no connections from the word vectors to the output, which the paper has as an option",
        "windows run across the ends of sentences",
    ),
)
@final
class FeedForward(Backbone):
    """One layer over a window; the state is the word vectors before the next, [n - 2, B, E]."""

    sites = frozenset({"output"})

    def __init__(self, config: FeedForwardConfig, shapes: Shapes) -> None:
        super().__init__()
        if config.diagonal and config.units != shapes.embedding:
            raise CombinationError(
                f"backbone.diagonal gives each unit one number of a word vector, but "
                f"backbone.units = {config.units} and embedding.size = {shapes.embedding}. "
                "Instead: the same number for both, or diagonal = false."
            )
        self.config = config
        self.length = config.order - 1
        if config.concatenated:
            _check_concatenated(config, self.length * shapes.embedding)
        self.embedding = shapes.embedding
        self.widths = (config.units,)
        self.f = Activation(config.activation)
        inputs = 1 if config.diagonal else shapes.embedding
        matrix = None if config.concatenated else (config.units, self.length, inputs)
        self.weight = None if matrix is None else nn.Parameter(torch.empty(matrix))
        self.bias = nn.Parameter(torch.empty(config.units)) if config.bias else None
        # Has the device and dtype of the state: with `concatenated` there may be no parameter.
        self.register_buffer("start", torch.zeros(()), persistent=False)

    def initial_state(self, rows: int) -> State:
        return (self.get_buffer("start").new_zeros(self.length - 1, rows, self.embedding),)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        vectors_SBE = torch.cat((state[0], inputs_TBE))
        windows_TBLE = windows_of(vectors_SBE, self.length)
        if self.weight is None:
            window_TBH = windows_TBLE.flatten(2)
            sum_TBH = window_TBH if self.bias is None else window_TBH + self.bias
        elif self.config.diagonal:
            sum_TBH = (windows_TBLE * self.weight.squeeze(2).t()).sum(2)
            sum_TBH = sum_TBH if self.bias is None else sum_TBH + self.bias
        else:
            sum_TBH = F.linear(windows_TBLE.flatten(2), self.weight.flatten(1), self.bias)
        output_TBH = self.f(sum_TBH)
        masked_TBH = masks("output", output_TBH)
        return (output_TBH,), (masked_TBH,), (vectors_SBE[len(inputs_TBE) :],)

    def initialize(self, draw: Draw) -> None:
        # Without a matrix only the bias is left, which has a number for each unit.
        inputs = self.config.units if self.weight is None else self.weight[0].numel()
        for name, parameter in self.named_parameters():
            bound = first_range(parameter, self.config.initial_range, inputs)
            parameter.data.uniform_(-bound, bound, generator=draw(name))


def _check_concatenated(config: FeedForwardConfig, width: int) -> None:
    if config.diagonal:
        raise CombinationError(
            "backbone.concatenated = true has no matrix, and backbone.diagonal = true makes it "
            "diagonal. Instead: only one of the two."
        )
    if config.units != width:
        raise CombinationError(
            f"backbone.concatenated = true has an output of {width} units, the word vectors of a "
            f"window, and backbone.units = {config.units}. Instead: backbone.units = {width}."
        )
