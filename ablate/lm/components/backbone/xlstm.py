"""xLSTM: residual layers of mLSTM, and of sLSTM where asked for (Beck et al. 2024).

A layer of mLSTM has a matrix as memory, and reads x through a layer norm:

    [u, z] = x W_u'    c = SiLU(conv(u))    q, k, v = c W_q', c W_k' / sqrt(D), u W_v'
    x <- x + ((norm(mLSTM(q, k, v, i~, f~)) + s c) SiLU(z)) W_o'        i~, f~ of [q, k, v]

A layer of sLSTM has a memory per unit, and gates that read its last output h; z~ and o~ are of x:

    c = SiLU(conv(x))    [i~, f~] = c W_c' + h R_c' + b_c    [z~, o~] = x W_x' + h R_x' + b_x
    x <- x + norm(sLSTM(i~, f~, z~, o~))
    x <- x + (GELU(x W_1') (x W_2')) W_3'                               behind another layer norm

W_q, W_k, W_v, W_c, W_x and R have a block for each head, and `norm` is of each head. Convolutions
are causal, over `convolution` steps of each channel. `_xlstm.py` has the cells' equations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
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
from ablate.lm.components.backbone import _stream as stream
from ablate.lm.components.backbone import _xlstm as cells

CHUNK = 64  # steps of an mLSTM that are computed at once
EXPANSION = 2  # units of an mLSTM, over those of its layer
REMEMBERED = (3.0, 6.0)  # b_f of a sigmoid, in the first unit or head, and in the last


@dataclass(frozen=True, kw_only=True)
class XlstmConfig:
    """Residual layers of mLSTM, or of sLSTM."""

    num_layers: int = setting(2, doc="number of layers", low=1, high=1000)
    units: int = setting(200, doc="units of every layer", low=1)
    heads: int = setting(4, doc="heads, each with matrices of its own", low=1)
    slstm_at: tuple[int, ...] = setting(
        (), doc="the layers of sLSTM, counted from 1; all others are of mLSTM", low=1
    )
    forget: str = setting("sigmoid", doc="the function of forget gates", choices=("sigmoid", "exp"))
    convolution: int = setting(4, doc="steps of the convolutions; 1: none", low=1, high=1000)

    @property
    def is_exponential(self) -> bool:
        """Return whether forget gates are exponentials."""
        return self.forget == "exp"

    def first_biases(self, number: int) -> Tensor:
        """b_f at first: both functions forget equally much."""
        biases = torch.linspace(*REMEMBERED, number)
        return F.logsigmoid(biases) if self.is_exponential else biases

    @property
    def deviation(self) -> float:
        """The standard deviation of matrices at first (the paper's "small" initialization)."""
        return math.sqrt(0.4 / self.units)

    @property
    def out_deviation(self) -> float:
        """The same, of matrices that write to the stream."""
        return 2 / self.num_layers / math.sqrt(self.units)


class Blocks(nn.Module):
    """x W' with a block of W for each head, and nothing between heads."""

    def __init__(self, heads: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, outputs, inputs))

    def forward(self, x_TBC: Tensor) -> Tensor:
        """The product, cut into heads, [T, B, A, D]."""
        x_TBAD = x_TBC.unflatten(-1, (self.weight.shape[0], -1))
        return torch.einsum("tbad,aed->tbae", x_TBAD, self.weight)

    def initialize(self, draw: Draw) -> None:
        """Draw W, small for the inputs of a head."""
        deviation = math.sqrt(0.4 / self.weight.shape[2])
        self.weight.data.normal_(0, deviation, generator=draw("weight"))


class MatrixLayer(nn.Module):
    """A layer of mLSTM; the states are the convolution's last inputs, C with n as its last column,
    [A, B, D, D + 1], and m, [A, B]."""

    def __init__(self, config: XlstmConfig, number: int) -> None:
        super().__init__()
        units = config.units * EXPANSION
        self.heads = config.heads
        self.size = stream.units_per_head(config.units, config.heads) * EXPANSION
        self.config = config
        self.norm = stream.Norm(config.units, centred=True)
        self.up = stream.Linear(config.units, 2 * units, config.deviation)
        self.convolution = stream.ShortConvolution(units, config.convolution, bias=True)
        self.query, self.key, self.value = (
            Blocks(self.heads, self.size, self.size) for _ in range(3)
        )
        self.gates = stream.Linear(3 * units, 2 * self.heads, 0)
        self.input_bias = nn.Parameter(torch.empty(self.heads))
        self.forget_bias = nn.Parameter(torch.empty(self.heads))
        self.cell_norm = stream.Norm(self.heads, self.size, centred=True)
        self.skip = nn.Parameter(torch.empty(units))
        self.down = stream.Linear(units, config.units, config.out_deviation)

    def initial_state(self, rows: int) -> State:
        zeros = self.skip.new_zeros
        memory = zeros(self.heads, rows, self.size, self.size + 1)
        before = self.convolution.initial_state(rows, memory)
        return before, memory, zeros(self.heads, rows)

    def forward(self, x_TBH: Tensor, state: State, masks: Masks) -> tuple[Tensor, State]:
        """The stream after the layer, and its states after the window."""
        inner_TBC, gate_TBC = self.up(self.norm(x_TBH)).chunk(2, -1)
        read_TBC, last = self.convolution(inner_TBC, state[0])
        read_TBC = F.silu(read_TBC)
        inputs = (self.query(read_TBC), self.key(read_TBC), self.value(inner_TBC))
        gates_TBG = self.gates(torch.cat(inputs, -1).flatten(2))
        h_TBAD, *memory = stream.in_float32(self._remembered, *inputs, gates_TBG, *state[1:])
        read_TBC = self.cell_norm(h_TBAD).flatten(2) + self.skip * read_TBC
        return x_TBH + self.down(read_TBC * F.silu(gate_TBC)), (last, *memory)

    def _remembered(
        self,
        q_TBAD: Tensor,
        k_TBAD: Tensor,
        v_TBAD: Tensor,
        gates_TBG: Tensor,
        c_ABDV: Tensor,
        m_AB: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """h of every step, and the states after the window."""
        i_BAT, f_BAT = gates_TBG.permute(1, 2, 0).chunk(2, 1)
        i_BAT, f_BAT = i_BAT + self.input_bias[:, None], f_BAT + self.forget_bias[:, None]
        log_f_BAT = f_BAT if self.config.is_exponential else F.logsigmoid(f_BAT)
        v_TBAV = F.pad(v_TBAD, (0, 1), value=1.0)
        parts = (q_TBAD, k_TBAD * self.size**-0.5, v_TBAV)
        inputs = (*(x.permute(1, 2, 0, 3) for x in parts), i_BAT, log_f_BAT)
        state = (c_ABDV.transpose(0, 1), m_AB.t())
        h_BATD, state = stream.in_chunks(cells.mlstm_chunk, CHUNK, inputs, state)
        return h_BATD.permute(2, 0, 1, 3), *(x.transpose(0, 1) for x in state)

    def initialize(self, draw: Draw) -> None:
        """Gates start as constants, near 1 for what is remembered."""
        self.input_bias.data.normal_(0, 0.1, generator=draw("input_bias"))
        self.forget_bias.data.copy_(self.config.first_biases(self.heads))
        self.skip.data.fill_(1)


class ScalarLayer(nn.Module):
    """A layer of sLSTM; the states are the convolution's last inputs, c, n and m, [3, B, H], and h,
    [1, B, H]."""

    def __init__(self, config: XlstmConfig, number: int) -> None:
        super().__init__()
        units, self.heads, self.number = config.units, config.heads, number
        size = stream.units_per_head(units, config.heads)
        inner = math.ceil(4 * units / 3)
        self.config = config
        self.norm = stream.Norm(units, centred=True)
        self.convolution = stream.ShortConvolution(units, config.convolution, bias=True)
        self.convolved = Blocks(config.heads, size, 2 * size)
        self.direct = Blocks(config.heads, size, 2 * size)
        self.weight_hh = nn.Parameter(torch.empty(config.heads, 4 * size, size))
        self.bias = nn.Parameter(torch.empty(4 * units))
        self.cell_norm = stream.Norm(config.heads, size, centred=True)
        self.inner_norm = stream.Norm(units, centred=True)
        self.inner = stream.Linear(units, 2 * inner, config.deviation)
        self.out = stream.Linear(inner, units, config.out_deviation)

    def initial_state(self, rows: int) -> State:
        zeros, units = self.bias.new_zeros, len(self.bias) // 4
        before = self.convolution.initial_state(rows, self.bias)
        return before, zeros(3, rows, units), zeros(1, rows, units)

    def forward(self, x_TBH: Tensor, state: State, masks: Masks) -> tuple[Tensor, State]:
        """The stream after the layer, and its states after the window."""
        normed_TBH, (before, cell_3BH, h_1BH) = self.norm(x_TBH), state
        read_TBH, last = self.convolution(normed_TBH, before)
        gates = (self.convolved(F.silu(read_TBH)), self.direct(normed_TBH))
        bias_AG = self.bias.view(self.heads, -1)
        weight_AGD = masks.weight(f"weight_hh_l{self.number}", self.weight_hh)
        mask_1BH = masks.locked(f"recurrent/{self.number + 1}", tuple(h_1BH.shape), h_1BH)
        states = (x.unflatten(-1, (self.heads, -1)) for x in (h_1BH[0], *cell_3BH))
        mask = None if mask_1BH is None else mask_1BH[0].unflatten(-1, (self.heads, -1))
        run = partial(cells.slstm, mask_BAD=mask, exponential=self.config.is_exponential)
        pre_TBAG = torch.cat(gates, -1) + bias_AG
        h_TBAD, h_BAD, *cell = stream.in_float32(run, pre_TBAG, weight_AGD, *states)
        x_TBH = x_TBH + self.cell_norm(h_TBAD).flatten(2)
        gate_TBI, inner_TBI = self.inner(self.inner_norm(x_TBH)).chunk(2, -1)
        x_TBH = x_TBH + self.out(F.gelu(gate_TBI) * inner_TBI)
        return x_TBH, (last, torch.stack(cell).flatten(2), h_BAD.flatten(1)[None])

    def initialize(self, draw: Draw) -> None:
        """R starts small, b at 0, and b_f such that most is remembered."""
        deviation = math.sqrt(0.4 / self.weight_hh.shape[2])
        self.weight_hh.data.normal_(0, deviation, generator=draw("weight_hh"))
        bias_AGD = self.bias.data.zero_().view(self.heads, 4, -1)
        bias_AGD[:, 1] = self.config.first_biases(bias_AGD.shape[2])


@register(
    "backbone",
    "xlstm",
    config=XlstmConfig,
    paper="beck2024xlstm",
    equation="Eq. 8-17, Eq. 19-27, and the blocks of Figures 10 and 11",
    departures=(
        "W_q, W_k and W_v have a block for each head, where the paper's models have blocks of four "
        "units",
        "b_f starts between 3 and 6, in sLSTM by a unit's place in its head, and with exp where as "
        "much is forgotten; biases of input gates start near 0, and the weights of mLSTM's gates "
        "at 0",
        "the feed-forward part of sLSTM has as many units as 4/3 of its layer, rounded up",
    ),
)
@final
class Xlstm(Backbone):
    """Residual layers, the last one's output under a norm. Masks "recurrent/1", ... and dropped
    recurrent weights are those of sLSTM; mLSTM's memory has no recurrent matrix."""

    states_per_layer = 3

    def __init__(self, config: XlstmConfig, shapes: Shapes) -> None:
        super().__init__()
        self.config = config
        self.widths = (config.units,) * config.num_layers
        beyond = [number for number in config.slstm_at if number > config.num_layers]
        if beyond:
            raise CombinationError(
                f"backbone.slstm_at names layer {beyond[0]}, and backbone.num_layers = "
                f"{config.num_layers}. Instead: layers from 1 to {config.num_layers}."
            )
        self.enter = stream.entrance(shapes.embedding, config.units, config.deviation)
        self.layers = nn.ModuleList(
            (ScalarLayer if number + 1 in config.slstm_at else MatrixLayer)(config, number)
            for number in range(config.num_layers)
        )
        self.norm = stream.Norm(config.units, centred=True)

    def initial_state(self, rows: int) -> State:
        return stream.initial_state(self.layers, rows)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        def apply(layer: MatrixLayer | ScalarLayer, x: Tensor, last: State) -> tuple[Tensor, State]:
            return layer(x, last, masks)

        return stream.run(self.layers, self.norm, self.enter(inputs_TBE), state, masks, apply)

    def operations(self, steps: int) -> int:
        """Of the matrices that are memories."""
        config = self.config
        matrices = sum(isinstance(layer, MatrixLayer) for layer in self.layers)
        size = config.units * EXPANSION // config.heads
        return matrices * config.heads * cells.operations(steps, CHUNK, size)

    def group(self, name: str) -> str:
        return stream.group(self, name)

    def initialize(self, draw: Draw) -> None:
        """Draw nothing: its parts are initialized by themselves."""
