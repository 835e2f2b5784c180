"""The minimal GRU (minGRU, Feng et al. 2024): gates that read the input and not the state.

    z_t = sigmoid(W_z x_t + b_z),    c_t = g(W_h x_t + b_h)
    h_t = (1 - z_t) * h_{t-1} + z_t * c_t

g(a) = a + 0.5 for a >= 0 and sigmoid(a) below keeps the state positive, which the paper's scan in
log space needs; candidate = 'linear' is its first form, g(a) = a. The scan here (`fast/scan.py`)
takes no logarithms, so both forms start from a state of 0. A block is

    x <- x + W_d minGRU(conv(norm(x))),    x <- x + MLP(norm(x))

with a convolution over the last words in each channel, W_d back from `expansion` times as many
units, and an MLP of one hidden layer with GELU. Each of the three can be off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register, setting
from ablate.lm.components.backbone import _stream as stream
from ablate.lm.model.fast.precision import full
from ablate.lm.model.fast.scan import scan


@dataclass(frozen=True, kw_only=True)
class MingruConfig:
    """The blocks, and what is around their recurrence."""

    num_layers: int = setting(2, doc="number of blocks", low=1, high=1000)
    units: int = setting(200, doc="units of every block's input and output", low=1)
    expansion: int = setting(
        1, doc="units of the state, as a multiple; 1: no matrix after the recurrence", low=1
    )
    candidate: str = setting(
        "positive",
        doc="what the state moves to: g(W_h x) > 0, or W_h x itself",
        choices=("positive", "linear"),
    )
    convolution: int = setting(4, doc="words that the convolution reads; 1: none", low=1)
    mlp: int = setting(4, doc="units of the MLP's hidden layer, as a multiple; 0: no MLP", low=0)


def positive(x: Tensor) -> Tensor:
    """g: x + 0.5 for x >= 0, sigmoid(x) below."""
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


def min_gru(gate_TBH: Tensor, candidate_TBH: Tensor, h_BH: Tensor) -> Tensor:
    """Every h_t, with z = sigmoid(gate)."""
    # 1 - sigmoid(x) = sigmoid(-x), without losing what is close to 0.
    return scan(torch.sigmoid(-gate_TBH), torch.sigmoid(gate_TBH) * candidate_TBH, h_BH)


class MinGruBlock(nn.Module):
    """One block; its states are the convolution's last inputs and the last h, [1, B, D]."""

    def __init__(self, config: MingruConfig) -> None:
        super().__init__()
        units, inner = config.units, config.units * config.expansion
        self.linear = config.candidate == "linear"
        self.norm = stream.Norm(units, centred=False)
        self.convolution = stream.ShortConvolution(units, config.convolution, bias=True)
        self.weight_z = nn.Parameter(torch.empty(inner, units))
        self.bias_z = nn.Parameter(torch.empty(inner))
        self.weight_h = nn.Parameter(torch.empty(inner, units))
        self.bias_h = nn.Parameter(torch.empty(inner))
        down = config.expansion > 1
        self.weight_down = nn.Parameter(torch.empty(units, inner)) if down else None
        self.mlp = Mlp(units, config.mlp * units) if config.mlp else None

    def initial_state(self, rows: int) -> State:
        """No inputs before the first, and a state of 0."""
        like = self.bias_z
        return self.convolution.initial_state(rows, like), like.new_zeros(1, rows, len(like))

    def forward(self, x_TBH: Tensor, states: State) -> tuple[Tensor, Tensor, Tensor]:
        read_TBH, inputs_KBH = self.convolution(self.norm(x_TBH), states[0])
        gate_TBD = full(F.linear(read_TBH, self.weight_z, self.bias_z))
        candidate_TBD = full(F.linear(read_TBH, self.weight_h, self.bias_h))
        if not self.linear:
            candidate_TBD = positive(candidate_TBD)
        h_TBD = min_gru(gate_TBD, candidate_TBD, states[1][0])
        added = h_TBD if self.weight_down is None else F.linear(h_TBD, self.weight_down)
        x_TBH = x_TBH + added
        return (x_TBH if self.mlp is None else self.mlp(x_TBH)), inputs_KBH, h_TBD[-1:]

    def initialize(self, draw: Draw) -> None:
        """As torch initializes a linear layer, but with biases of 0."""
        names = ["weight_z", "weight_h"] + ["weight_down"] * (self.weight_down is not None)
        stream.draw_uniform(self, draw, *names)
        self.bias_z.data.zero_()
        self.bias_h.data.zero_()


class Mlp(nn.Module):
    """x + W' GELU(W norm(x) + b) + b'."""

    def __init__(self, units: int, hidden: int) -> None:
        super().__init__()
        self.norm = stream.Norm(units, centred=False)
        self.weight_up = nn.Parameter(torch.empty(hidden, units))
        self.bias_up = nn.Parameter(torch.empty(hidden))
        self.weight_out = nn.Parameter(torch.empty(units, hidden))
        self.bias_out = nn.Parameter(torch.empty(units))

    def forward(self, x_TBH: Tensor) -> Tensor:
        hidden_TBM = F.gelu(F.linear(self.norm(x_TBH), self.weight_up, self.bias_up))
        return x_TBH + F.linear(hidden_TBM, self.weight_out, self.bias_out)

    def initialize(self, draw: Draw) -> None:
        stream.draw_uniform(self, draw, "weight_up", "weight_out")
        self.bias_up.data.zero_()
        self.bias_out.data.zero_()


@register(
    "backbone",
    "mingru",
    config=MingruConfig,
    paper="feng2024mingru",
    equation="Section 3.1 (minGRU); g: Appendix B.2",
    departures=(
        "the scan is not in log space, so the first state is 0, not a positive number",
        "the block is written from memory of the paper's appendix: what it normalizes, and where "
        "it adds, may differ; no dropout inside a block",
    ),
)
@final
class Mingru(Backbone):
    """Residual blocks; the state is every block's last inputs of the convolution, [K - 1, B, H],
    and h, [1, B, D]."""

    sites = frozenset({"hidden", "output"})
    states_per_layer = 2

    def __init__(self, config: MingruConfig, shapes: Shapes) -> None:
        super().__init__()
        self.widths = (config.units,) * config.num_layers
        last_norm = stream.Norm(config.units, centred=False)
        blocks = [MinGruBlock(config) for _ in self.widths]
        self.stack = stream.Stack(shapes.embedding, blocks, last_norm)

    def group(self, name: str) -> str:
        return stream.group(self, name)

    def initial_state(self, rows: int) -> State:
        return self.stack.initial_state(rows)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        return self.stack.run(inputs_TBE, state, masks)

    def initialize(self, draw: Draw) -> None:
        """Nothing of its own: the stack and its blocks draw theirs."""
