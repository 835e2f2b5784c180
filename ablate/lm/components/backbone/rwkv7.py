"""RWKV-7: a memory per head whose every unit decays at a rate of its own (Peng et al. 2025).

Time mixing reads x through a layer norm; x^c is x + (x_{t-1} - x) mu_c, for each c of six:

    r = x^r W_r'    k = x^k W_k'    v = x^v W_v'    g = sigmoid(x^g G_1') G_2'
    w = exp(-exp(-1/2) sigmoid(tanh(x^w D_1') D_2' + d_0))           the decay
    a = sigmoid(x^a A_1' A_2' + a_0)                                 the in-context learning rate
    v <- v + (v_1 - v) sigmoid(x^v V_1' V_2' + v_0)                  v_1: the first layer's v
    kappa = k xi / |k xi|    in each head                            the removal key
    k <- k (1 + (a - 1) alpha)                                       the replacement key
    S_t = S_{t-1} (diag(w) - kappa (a kappa)') + v k'                the memory
    x <- x + (g (GroupNorm(S_t r) + (r' (rho k)) v)) W_o'            with a bonus for this step

Channel mixing reads it through another:  x <- x + relu(x^c W_1')^2 W_2'.

`_wkv7.py` has the memory step by step, and by chunks, which models run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register, setting
from ablate.lm.components.backbone import _stream as stream
from ablate.lm.components.backbone import _wkv7 as wkv7
from ablate.lm.model.fast.precision import full
from ablate.lm.model.width import by_width

CHUNK = 16  # steps; over more of them 1 / G would grow too large for float32
LOWEST = -(math.e**-0.5)  # log of the fastest decay
# The six mixtures, and how steeply their mu falls at first over a layer's units.
SLOPES = {"r": 0.2, "k": 0.7, "v": 0.7, "w": 0.9, "a": 0.9, "g": 0.2}


@dataclass(frozen=True, kw_only=True)
class Rwkv7Config:
    """Residual layers of time mixing and channel mixing each."""

    num_layers: int = setting(2, doc="number of layers", low=1, high=1000)
    units: int = setting(200, doc="units of every layer", low=1)
    heads: int = setting(4, doc="heads, each with a memory of its own", low=1)
    rank: int = setting(
        16,
        doc="rank of the matrices of decay and learning rate; half of it for the mixture of "
        "values, twice for the gate (64 in the paper's models of 768 units)",
        low=1,
    )
    inner_units: int | None = setting(
        None, doc="units of the channel mixing; none: 4 times units", low=1
    )
    value_residual: bool = setting(True, doc="later layers mix the first layer's v into theirs")
    bonus: bool = setting(True, doc="what is read has a term of its step's own v")


class LowRank(nn.Module):
    """f(x A') B' + c. A starts at 0, so at first it is the same for every x; c starts at `start`,
    and without that there is no c."""

    def __init__(self, units: int, rank: int, start: float | Sequence[float] | None = None) -> None:
        super().__init__()
        self.start = start
        self.first = nn.Parameter(torch.empty(rank, units))
        self.second = nn.Parameter(torch.empty(units, rank))
        self.bias = None if start is None else nn.Parameter(torch.empty(units))

    def forward(self, x_TBH: Tensor, f: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Return f(x A') B' + c, in float32 or better; without f, its argument itself."""
        inner_TBR = F.linear(x_TBH, self.first)
        y_TBH = full(F.linear(inner_TBR if f is None else f(inner_TBR), self.second))
        return y_TBH if self.bias is None else y_TBH + self.bias

    def initialize(self, draw: Draw) -> None:
        """B starts orthogonal, times 0.1."""
        self.first.data.zero_()
        # Of columns of length 1: each number is smaller, the more units there are.
        gain = 0.1 * by_width(self.second, 0.5)
        nn.init.orthogonal_(self.second.data, gain, generator=draw("second"))
        if self.bias is not None:
            self.bias.data.copy_(torch.tensor(self.start))


class TokenShift(nn.Module):
    """x_t + (x_{t-1} - x_t) mu, for every mu of some names; the state is the last x, [1, B, H]."""

    def __init__(self, units: int, slopes: Mapping[str, float]) -> None:
        super().__init__()
        self.slopes = slopes
        for name in slopes:
            self.register_parameter(f"mu_{name}", nn.Parameter(torch.empty(units)))

    def forward(self, x_TBH: Tensor, before_1BH: Tensor) -> tuple[list[Tensor], Tensor]:
        """Every mixture, and the last x."""
        apart_TBH = torch.cat((before_1BH, x_TBH[:-1])) - x_TBH
        mixed = [x_TBH + apart_TBH * getattr(self, f"mu_{name}") for name in self.slopes]
        return mixed, x_TBH[-1:]

    def initialize(self, draw: Draw) -> None:
        """mu falls from 1, which is the word before, to nearly 0 over the units."""
        for name, slope in self.slopes.items():
            mu_H = self.get_parameter(f"mu_{name}").data
            mu_H.copy_(1 - (torch.arange(len(mu_H)) / len(mu_H)) ** slope)


class TimeMixing(nn.Module):
    """The memory over a window; the states are the last x, and S' of each head, [A, B, D, D]."""

    def __init__(self, config: Rwkv7Config, layer: int) -> None:
        super().__init__()
        units, self.heads = config.units, config.heads
        self.size = stream.units_per_head(units, config.heads)
        left = 1 - layer / config.num_layers
        self.shift = TokenShift(units, {name: slope * left for name, slope in SLOPES.items()})
        self.receptance = stream.Linear(units, units, _deviation(0.5, units))
        self.key = stream.Linear(units, units, _deviation(0.05, units))
        self.value = stream.Linear(units, units, _deviation(0.5, units))
        self.out = stream.Linear(units, units, 0)
        self.decay = LowRank(units, config.rank, _decays(config, layer))
        self.rate = LowRank(units, config.rank, 0.0)
        self.gate = LowRank(units, 2 * config.rank)
        mixes = config.value_residual and layer > 0
        self.mixture = LowRank(units, max(1, config.rank // 2), 1.0) if mixes else None
        self.removal = nn.Parameter(torch.empty(units))
        self.replacement = nn.Parameter(torch.empty(units))
        self.bonus = nn.Parameter(torch.empty(units)) if config.bonus else None
        self.norm = stream.Norm(
            config.heads,
            self.size,
            centred=True,
            bias=True,
            epsilon=1e-5 * self.size,  # 64e-5 for heads of 64 units, which the paper's models have
            start=((1 + layer) / config.num_layers) ** 0.7,
        )

    def initial_state(self, rows: int) -> State:
        zeros, units = self.removal.new_zeros, self.heads * self.size
        return zeros(1, rows, units), zeros(self.heads, rows, self.size, self.size)

    def forward(
        self, x_TBH: Tensor, state: State, first_TBH: Tensor | None
    ) -> tuple[Tensor, Tensor, State]:
        """What is added to the stream, the v of this layer before it is mixed, and the states."""
        (on_r, on_k, on_v, on_w, on_a, on_g), last_1BH = self.shift(x_TBH, state[0])
        value_TBH = v_TBH = full(self.value(on_v))
        if self.mixture is not None and first_TBH is not None:
            v_TBH = torch.lerp(v_TBH, first_TBH, self.mixture(on_v).sigmoid())
        log_w_TBH = LOWEST * self.decay(on_w, torch.tanh).sigmoid()
        rate_TBH = self.rate(on_a).sigmoid()
        inputs = (self.receptance(on_r), log_w_TBH, self.key(on_k), v_TBH, rate_TBH)
        y_TBH, s_ABDD = stream.in_float32(self._remembered, *inputs, state[1])
        gated_TBH = y_TBH * self.gate(on_g, torch.sigmoid)
        return self.out(gated_TBH), value_TBH, (last_1BH, s_ABDD)

    def _remembered(
        self,
        r_TBH: Tensor,
        log_w_TBH: Tensor,
        k_TBH: Tensor,
        v_TBH: Tensor,
        rate_TBH: Tensor,
        s_ABDD: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """What is read of the memory, normed, with the bonus."""
        removal_TBAD = (k_TBH * self.removal).unflatten(-1, (self.heads, self.size))
        removal_TBH = F.normalize(removal_TBAD, dim=-1).flatten(2)
        k_TBH = k_TBH * torch.lerp(torch.ones_like(k_TBH), rate_TBH, self.replacement)
        parts = (r_TBH, log_w_TBH, k_TBH, v_TBH, -removal_TBH, removal_TBH * rate_TBH)
        r, log_w, k, v, z, b = (stream.by_head(part, self.heads) for part in parts)
        inputs, s_BADD = (r, log_w, k, v, z, b), s_ABDD.transpose(0, 1)
        y_BATD, s_BADD = stream.in_chunks(wkv7.chunk, CHUNK, inputs, s_BADD)
        y_TBAD = self.norm(y_BATD.permute(2, 0, 1, 3))
        if self.bonus is not None:
            bonus_A1D = self.bonus.view(self.heads, 1, self.size)
            own_BATD = (r * k * bonus_A1D).sum(-1, keepdim=True) * v
            y_TBAD = y_TBAD + own_BATD.permute(2, 0, 1, 3)
        return y_TBAD.flatten(2), s_BADD.transpose(0, 1)

    def initialize(self, draw: Draw) -> None:
        """Constants: at first a key is removed at half a rate, and replaced by half."""
        self.removal.data.fill_(0.85)
        self.replacement.data.fill_(1)
        if self.bonus is not None:
            self.bonus.data.zero_()


class ChannelMixing(nn.Module):
    """relu(x W_1')^2 W_2' of the mixture with the word before, which is the state, [1, B, H]."""

    def __init__(self, config: Rwkv7Config, layer: int) -> None:
        super().__init__()
        units = config.units
        inner = config.inner_units or 4 * units
        self.shift = TokenShift(units, {"k": (1 - layer / config.num_layers) ** 4})
        self.key = stream.Linear(units, inner, _deviation(0.5, units))
        self.value = stream.Linear(inner, units, 0)

    def forward(self, x_TBH: Tensor, before_1BH: Tensor) -> tuple[Tensor, Tensor]:
        """What is added to the stream, and the last x."""
        (mixed_TBH,), last_1BH = self.shift(x_TBH, before_1BH)
        return self.value(self.key(mixed_TBH).relu() ** 2), last_1BH


class Layer(nn.Module):
    """Time mixing and channel mixing, each behind a norm."""

    def __init__(self, config: Rwkv7Config, layer: int) -> None:
        super().__init__()
        self.time_norm = stream.Norm(config.units, centred=True, bias=True)
        self.time = TimeMixing(config, layer)
        self.channel_norm = stream.Norm(config.units, centred=True, bias=True)
        self.channel = ChannelMixing(config, layer)

    def initial_state(self, rows: int) -> State:
        last_1BH, memory_ABDD = self.time.initial_state(rows)
        return last_1BH, last_1BH.clone(), memory_ABDD

    def forward(
        self, x_TBH: Tensor, state: State, first_TBH: Tensor | None
    ) -> tuple[Tensor, Tensor, State]:
        """The stream after the layer, its v, and its states after the window."""
        before_time, before_channel, memory = state
        own = (before_time, memory)
        added_TBH, v_TBH, (time, memory) = self.time(self.time_norm(x_TBH), own, first_TBH)
        x_TBH = x_TBH + added_TBH
        added_TBH, channel = self.channel(self.channel_norm(x_TBH), before_channel)
        return x_TBH + added_TBH, v_TBH, (time, channel, memory)


def _deviation(bound: float, units: int) -> float:
    """The standard deviation of a uniform draw within +- bound / sqrt(units)."""
    return bound * (3 * units) ** -0.5


def _decays(config: Rwkv7Config, layer: int) -> list[float]:
    """d_0: decays from slow to fast over the units, and in later layers slow for more of them."""
    power = 0.85 + (layer / max(1, config.num_layers - 1)) ** 0.5
    last = max(1, config.units - 1)
    return [5 * (unit / last) ** power - 6.5 for unit in range(config.units)]


@register(
    "backbone",
    "rwkv7",
    config=Rwkv7Config,
    paper="peng2025rwkv7",
    equation="Section 4",
    departures=(
        "initial values follow the authors' code, from memory: the same scales and slopes over "
        "units and layers, matrices normal where it draws uniformly, and no ripple over units",
        "the ranks are one setting, in the proportions of the paper's models of 768 units",
        "any number of heads; the paper's have 64 units each",
    ),
)
@final
class Rwkv7(Backbone):
    """Residual layers behind a norm, the last one's output under another. A layer's states are the
    last inputs of its two mixings, [1, B, H], and the transposed S of each head, [A, B, D, D]."""

    sites = frozenset({"hidden", "output"})
    states_per_layer = 3

    def __init__(self, config: Rwkv7Config, shapes: Shapes) -> None:
        super().__init__()
        self.config = config
        self.widths = (config.units,) * config.num_layers
        self.enter = stream.entrance(shapes.embedding, config.units, shapes.embedding**-0.5)
        self.first_norm = stream.Norm(config.units, centred=True, bias=True)
        self.layers = nn.ModuleList(Layer(config, layer) for layer in range(config.num_layers))
        self.norm = stream.Norm(config.units, centred=True, bias=True)

    def initial_state(self, rows: int) -> State:
        return stream.initial_state(self.layers, rows)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        first: list[Tensor] = []  # the first layer's v, once it is known

        def apply(layer: Layer, x: Tensor, last: State) -> tuple[Tensor, State]:
            x, v, after = layer(x, last, first[0] if first else None)
            first.append(v)
            return x, after

        x_TBH = self.first_norm(self.enter(inputs_TBE))
        return stream.run(self.layers, self.norm, x_TBH, state, masks, apply)

    def operations(self, steps: int) -> int:
        """Of the memories."""
        heads = self.config.num_layers * self.config.heads
        return heads * wkv7.operations(steps, CHUNK, self.config.units // self.config.heads)

    def group(self, name: str) -> str:
        return stream.group(self, name)

    def initialize(self, draw: Draw) -> None:
        """Draw nothing: its parts are initialized by themselves."""
