"""Mogrifier LSTM: input and state gate each other before every step (Melis et al. 2020).

    x <- 2 sigmoid(Q_r h + q_r) x    for r = 1, 3, ... rounds
    h <- 2 sigmoid(R_r x + r_r) h    for r = 2, 4, ...

always with the newest x and h; then an LSTM step whose gates read these, with c as it was. The
matrices of a round are factorized, Q = A B, where `rank` is not 0. Without rounds it is the LSTM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.components.backbone import Backbone
from ablate.components.backbone._mogrifier_window import Cell, Round, fast_window
from ablate.components.backbone.lstm import LstmConfig, layer_units, lstm_layer
from ablate.components.flow import Draw, Shapes, State
from ablate.components.keras import INITIALIZATIONS, check_initialization, lstm_parameter
from ablate.components.regularizer import Masks
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class MogrifierConfig:
    """Layers of an LSTM, each with rounds of gating before every step."""

    num_layers: int = setting(2, doc="layers", low=1)
    units: int | tuple[int, ...] = setting(
        200, doc="units of every layer, or a list with one number a layer", low=1
    )
    last_units: int | None = setting(
        None, doc="units of the last layer, if others than `units`", low=1
    )
    biases: int = setting(
        2, doc="bias vectors a gate: torch has 2, Keras and Chainer 1", choices=(1, 2)
    )
    initial_range: float | None = setting(
        None, doc="parameters start uniform in +- this; none: 1/sqrt(units), as in torch", low=0
    )
    initialization: str = setting(
        "uniform",
        doc="uniform in `initial_range`, or as Keras starts an LSTM",
        choices=INITIALIZATIONS,
    )
    rounds: int = setting(5, doc="rounds of gating before every step; 0: an LSTM", low=0)
    rank: int = setting(0, doc="of the rounds' matrices, as products of two; 0: whole", low=0)
    dropout: float = setting(
        0.0,
        doc="share dropped of what a round's last matrix reads: the `rank` units between the two",
        low=0,
        high=0.99,
    )
    capped: bool = setting(False, doc="the input gate is at most 1 - the forget gate")


def gated(target_BM: Tensor, read_BN: Tensor, one: Round) -> Tensor:
    """2 sigmoid(Q read + q) target: one round."""
    if one.right is not None:
        read_BN = F.linear(read_BN, one.right)
    if one.mask is not None:
        read_BN = read_BN * one.mask
    return 2 * F.linear(read_BN, one.left, one.bias).sigmoid() * target_BM


def step(x_BI: Tensor, h_BH: Tensor, c_BH: Tensor, cell: Cell) -> tuple[Tensor, Tensor]:
    """h' and c' of one step."""
    for number, one in enumerate(cell.rounds, 1):
        if number % 2:
            x_BI = gated(x_BI, h_BH, one)
        else:
            h_BH = gated(h_BH, x_BI, one)
    pre_BD = F.linear(x_BI, cell.weight_ih, cell.bias) + F.linear(h_BH, cell.weight_hh)
    i, f, g, o = pre_BD.chunk(4, -1)
    i, f = i.sigmoid(), f.sigmoid()
    c_BH = f * c_BH + (torch.minimum(i, 1 - f) if cell.capped else i) * g.tanh()
    return o.sigmoid() * c_BH.tanh(), c_BH


def plain_window(
    x_TBI: Tensor, h_BH: Tensor, c_BH: Tensor, mask_BH: Tensor | None, cell: Cell
) -> tuple[Tensor, Tensor]:
    """h after every step and the last c, one operation at a time: the twin of `fast_window`."""
    outputs = []
    for x_BI in x_TBI:
        h_BH, c_BH = step(x_BI, h_BH if mask_BH is None else h_BH * mask_BH, c_BH, cell)
        outputs.append(h_BH)
    return torch.stack(outputs), c_BH


def _cell(
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor | None,
    rounds: tuple[Round, ...],
    capped: bool,
) -> Cell:
    bias = bias_ih if bias_hh is None else bias_ih + bias_hh
    return Cell(weight_ih=weight_ih, weight_hh=weight_hh, bias=bias, rounds=rounds, capped=capped)


@register(
    "backbone",
    "mogrifier",
    config=MogrifierConfig,
    paper="melis2020mogrifier",
    equation="Section 2",
    departures=(
        "where a round's matrix is whole, there is nothing between two for the dropout to act on: "
        "it acts on what the matrix reads. One mask for all steps of a window",
        "the rounds' matrices start in the range of the layer's other parameters, or of Keras' "
        "kernels, their biases at 0: gates near 1, so nearly an LSTM",
        "two bias vectors a gate by default, as torch has; biases = 1: one, as Keras",
        "no start of the forget gate's bias of its own, but with initialization = 'keras', at 1; "
        "the authors' code starts it around 1, and adds a skip connection around the layers",
    ),
)
@final
class Mogrifier(Backbone):
    """The state is (h1, c1, h2, c2, ...), each [1, B, H]. Masks "recurrent/1", ... are held over
    the window and act before the gating."""

    def __init__(self, config: MogrifierConfig, shapes: Shapes) -> None:
        super().__init__()
        check_initialization(config.initialization, config.initial_range, "backbone")
        self.config = config
        layers = LstmConfig(
            num_layers=config.num_layers, units=config.units, last_units=config.last_units
        )
        self.widths = layer_units(layers)
        inputs = (shapes.embedding, *self.widths[:-1])
        for layer, (width_in, width) in enumerate(zip(inputs, self.widths, strict=True)):
            self._add(f"weight_ih_l{layer}", 4 * width, width_in)
            self._add(f"weight_hh_l{layer}", 4 * width, width)
            self._add(f"bias_ih_l{layer}", 4 * width)
            if config.biases == 2:
                self._add(f"bias_hh_l{layer}", 4 * width)
            for number in range(1, config.rounds + 1):
                sizes = (width_in, width) if number % 2 else (width, width_in)
                self._add_round(f"r{number}_l{layer}", *sizes)

    def initial_state(self, rows: int) -> State:
        like = self.get_parameter("bias_ih_l0")
        return tuple(like.new_zeros(1, rows, width) for width in self.widths for _ in range(2))

    def forward(
        self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], State]:
        raw, masked, after = [], [], []
        x = inputs_TBE
        for layer in range(len(self.widths)):
            output, h, c = self._run(layer, x, state, masks)
            last = layer == len(self.widths) - 1
            x = masks("output" if last else f"hidden/{layer + 1}", output)
            raw.append(output)
            masked.append(x)
            after += [h, c]
        return tuple(raw), tuple(masked), tuple(after)

    def initialize(self, draw: Draw) -> None:
        for name, parameter in self.named_parameters():
            if self.config.initialization == "keras":
                lstm_parameter(name, parameter.data, draw(name))
                continue
            width = self.widths[int(name.rpartition("_l")[2])]
            given = self.config.initial_range
            bound = width**-0.5 if given is None else given
            parameter.data.uniform_(-bound, bound, generator=draw(name))
            if name.startswith("mogrifier_bias"):
                parameter.data.zero_()

    def group(self, name: str) -> str:
        is_matrix = name.startswith("mogrifier") and "bias" not in name
        return "mogrifier" if is_matrix else super().group(name)

    def _add(self, name: str, *shape: int) -> None:
        self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def _add_round(self, place: str, num_out: int, num_in: int) -> None:
        rank = self.config.rank
        self._add(f"mogrifier_left_{place}", num_out, rank or num_in)
        if rank:
            self._add(f"mogrifier_right_{place}", rank, num_in)
        self._add(f"mogrifier_bias_{place}", num_out)

    def _run(
        self, layer: int, x_TBI: Tensor, state: State, masks: Masks
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One layer over a window: its outputs, and the last h and c."""
        h_1BH, c_1BH = state[2 * layer : 2 * layer + 2]
        mask_1BH = masks.held(f"recurrent/{layer + 1}", tuple(h_1BH.shape), h_1BH)
        weights = self._weights(layer, masks)
        rounds = self._rounds(layer, x_TBI, masks)
        if mask_1BH is None and not rounds and not self.config.capped:
            return lstm_layer(x_TBI, h_1BH, c_1BH, *weights)
        mask_BH = None if mask_1BH is None else mask_1BH[0]
        cell = _cell(*weights, rounds, self.config.capped)
        output, c_BH = fast_window(x_TBI, h_1BH[0], c_1BH[0], mask_BH, cell)
        return output, output[-1:], c_BH[None]

    def _weights(self, layer: int, masks: Masks) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """As the LSTM's, of the same names."""
        recurrent = f"weight_hh_l{layer}"
        return (
            self.get_parameter(f"weight_ih_l{layer}"),
            masks.weight(recurrent, self.get_parameter(recurrent)),
            self.get_parameter(f"bias_ih_l{layer}"),
            getattr(self, f"bias_hh_l{layer}", None),
        )

    def _rounds(self, layer: int, x_TBI: Tensor, masks: Masks) -> tuple[Round, ...]:
        numbers = range(1, self.config.rounds + 1)
        return tuple(self._round(f"r{number}_l{layer}", x_TBI, masks) for number in numbers)

    def _round(self, place: str, x_TBI: Tensor, masks: Masks) -> Round:
        left = self.get_parameter(f"mogrifier_left_{place}")
        whole = x_TBI.new_ones(1, x_TBI.shape[1], left.shape[1])
        mask = masks.own(f"mogrifier/{place}", whole, self.config.dropout, locked=True)
        return Round(
            left=left,
            right=getattr(self, f"mogrifier_right_{place}", None),
            bias=self.get_parameter(f"mogrifier_bias_{place}"),
            mask=None if mask is whole else mask[0],
        )
