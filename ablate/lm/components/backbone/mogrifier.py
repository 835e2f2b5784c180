"""Mogrifier LSTM: input and state gate each other before every step (Melis et al. 2020).

    x <- 2 sigmoid(A_r (m_r (B_r h)) + q_r) x    for r = 1, 3, ... rounds
    h <- 2 sigmoid(A_r (m_r (B_r x)) + q_r) h    for r = 2, 4, ...

    a = x W_ih' + h W_hh' + b,    split into a_i, a_f, a_g and a_o
    i = sigmoid(a_i),    f = sigmoid(a_f),    g = tanh(a_g),    o = sigmoid(a_o)
    c' = f c + i g,    h' = o tanh(c')

Each round reads the newest x and h, and the gates of the LSTM step read what the rounds leave; c is
in no round. The first h is under the mask of the variational dropout, and m_r is the mask of
`dropout`. If `rank` is 0, there is no B_r. If `capped`, min(i, 1 - f) stands in place of i. Without
rounds this is the LSTM.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register, setting
from ablate.lm.components.backbone import _layers as layers
from ablate.lm.components.backbone.lstm import FILL, LstmConfig, lstm_layer
from ablate.lm.model import fan_in
from ablate.lm.model.fast.mogrifier_trace import Cell, Round
from ablate.lm.model.fast.mogrifier_window import window_of
from ablate.lm.model.keras import GATES, check_initialization


@dataclass(frozen=True, kw_only=True)
class MogrifierConfig(LstmConfig):
    """Layers of an LSTM, each with rounds of gating before every step."""

    rounds: int = setting(5, doc="rounds of gating before every step; 0: an LSTM", low=0, high=1000)
    rank: int = setting(0, doc="rank of the factorized round matrices; 0: not factorized", low=0)
    dropout: float = setting(
        0.0,
        doc="share dropped of the `rank` units between the two factors of a round's matrix",
        low=0,
        high=0.99,
    )
    capped: bool = setting(False, doc="cap the input gate at 1 - the forget gate")


def gated(target_BM: Tensor, read_BN: Tensor, gating: Round) -> Tensor:
    """Return the target of one round, scaled by the gate that reads the other vector."""
    if gating.right is not None:
        read_BN = F.linear(read_BN, gating.right)
    if gating.mask is not None:
        read_BN = read_BN * gating.mask
    return 2 * F.linear(read_BN, gating.left, gating.bias).sigmoid() * target_BM


def step(x_BI: Tensor, h_BH: Tensor, c_BH: Tensor, cell: Cell) -> tuple[Tensor, Tensor]:
    """h' and c' of one step."""
    for number, gating in enumerate(cell.rounds, 1):
        if number % 2:
            x_BI = gated(x_BI, h_BH, gating)
        else:
            h_BH = gated(h_BH, x_BI, gating)
    pre_BD = F.linear(x_BI, cell.weight_ih, cell.bias) + F.linear(h_BH, cell.weight_hh)
    i, f, g, o = pre_BD.chunk(4, -1)
    i, f = i.sigmoid(), f.sigmoid()
    c_BH = f * c_BH + (torch.minimum(i, 1 - f) if cell.capped else i) * g.tanh()
    return o.sigmoid() * c_BH.tanh(), c_BH


def plain_window(
    x_TBI: Tensor, h_BH: Tensor, c_BH: Tensor, mask_BH: Tensor | None, cell: Cell
) -> tuple[Tensor, Tensor]:
    """h after every step and the last c, op by op."""
    outputs = []
    for x_BI in x_TBI:
        h_BH, c_BH = step(x_BI, h_BH if mask_BH is None else h_BH * mask_BH, c_BH, cell)
        outputs.append(h_BH)
    return torch.stack(outputs), c_BH


window = partial(window_of, plain_window)  # by kernels where they can take the tensors


@register(
    "backbone",
    "mogrifier",
    config=MogrifierConfig,
    paper="melis2020mogrifier",
    equation="Section 2",
    departures=(
        "if a round's matrix is not factorized, the dropout acts on the matrix's input instead. "
        "One mask for all steps of a window",
        "the rounds' matrices start in the range of the layer's other parameters, or of Keras' "
        "kernels; as in the authors' code with initialization = 'fan_in'. Their biases start at 0: "
        "gates near 1, so nearly an LSTM",
        "two bias vectors per gate by default, as in torch; biases = 1: one, as in Keras",
        "the forget gate's bias starts like the other biases, at 1 with initialization = 'keras', "
        "and around 1 with 'fan_in', as in the authors' code. There the head reads the sum of the "
        "layers' outputs (bridge = 'layer_sum')",
    ),
)
@final
class Mogrifier(Backbone):
    """The state is (h1, c1, h2, c2, ...), each [1, B, H]. Masks "recurrent/1", ... are the same at
    every step of the window and act before the gating."""

    sites = frozenset({"hidden", "output", "recurrent", "weight"})
    states_per_layer = 2

    def __init__(self, config: MogrifierConfig, shapes: Shapes) -> None:
        super().__init__()
        check_initialization(config.initialization, config.initial_range, "backbone")
        self.config = config
        self.widths = layers.units_of(config)
        inputs = (shapes.embedding, *self.widths[:-1])
        for layer, (width_in, width) in enumerate(zip(inputs, self.widths, strict=True)):
            layers.add(self, layer, width_in, width, gates=GATES, biases=config.biases)
            for number in range(1, config.rounds + 1):
                sizes = (width_in, width) if number % 2 else (width, width_in)
                self._add_round(f"r{number}_l{layer}", *sizes)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        return layers.run(self, inputs_TBE, state, masks, partial(self._run, masks))

    def initialize(self, draw: Draw) -> None:
        uniform = self.config.initialization == "uniform"
        if uniform:
            layers.initialize(self, self.config.initial_range, draw)
        for name, parameter in self.named_parameters():
            if name.startswith("mogrifier_bias"):
                parameter.data.zero_()
            elif not uniform:
                self._fill(name, parameter.data, draw(name))

    def _fill(self, name: str, parameter: Tensor, generator: torch.Generator) -> None:
        """Fill a parameter that does not start uniform."""
        config = self.config
        if config.initialization == "fan_in" and config.rank and name.startswith("mogrifier"):
            # Both factors start by the inputs of their product, which the right one reads.
            inputs = self.get_parameter(name.replace("left", "right")).shape[1]
            fan_in.factor(parameter, inputs, config.rank, generator)
        else:
            FILL[config.initialization](name, parameter, generator)

    def group(self, name: str) -> str:
        is_matrix = name.startswith("mogrifier") and "bias" not in name
        return "mogrifier" if is_matrix else super().group(name)

    def _add(self, name: str, *shape: int) -> None:
        self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def _add_round(self, suffix: str, num_out: int, num_in: int) -> None:
        rank = self.config.rank
        self._add(f"mogrifier_left_{suffix}", num_out, rank or num_in)
        if rank:
            self._add(f"mogrifier_right_{suffix}", rank, num_in)
        self._add(f"mogrifier_bias_{suffix}", num_out)

    def _run(
        self, masks: Masks, layer: int, x_TBI: Tensor, state: State
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One layer over a window: its outputs, and the last h and c."""
        h_1BH, c_1BH = state
        mask_1BH = masks.locked(f"recurrent/{layer + 1}", tuple(h_1BH.shape), h_1BH)
        weights = layers.weights_of(self, layer, masks)
        rounds = self._rounds(layer, x_TBI, masks)
        # Then the layer is an LSTM, for which torch has a fused kernel.
        if mask_1BH is None and not rounds and not self.config.capped:
            return lstm_layer(x_TBI, h_1BH, c_1BH, weights)
        mask_BH = None if mask_1BH is None else mask_1BH[0]
        weight_ih, weight_hh, bias, bias_hh = weights
        cell = Cell(
            weight_ih=weight_ih,
            weight_hh=weight_hh,
            bias=bias if bias_hh is None else bias + bias_hh,
            rounds=rounds,
            capped=self.config.capped,
        )
        output, c_BH = window(x_TBI, h_1BH[0], c_1BH[0], mask_BH, cell)
        return output, output[-1:], c_BH[None]

    def _rounds(self, layer: int, x_TBI: Tensor, masks: Masks) -> tuple[Round, ...]:
        numbers = range(1, self.config.rounds + 1)
        return tuple(self._round(f"r{number}_l{layer}", x_TBI, masks) for number in numbers)

    def _round(self, suffix: str, x_TBI: Tensor, masks: Masks) -> Round:
        left = getattr(self, f"mogrifier_left_{suffix}")
        # Dropout of ones gives the mask itself, which the window applies at every step.
        ones = x_TBI.new_ones(1, x_TBI.shape[1], left.shape[1])
        mask = masks.dropout(f"mogrifier/{suffix}", ones, self.config.dropout, locked=True)
        return Round(
            left=left,
            right=getattr(self, f"mogrifier_right_{suffix}", None),
            bias=getattr(self, f"mogrifier_bias_{suffix}"),
            mask=None if mask is ones else mask[0],
        )
