"""Gated DeltaNet: a memory per head that forgets, and that corrects what it has under a key.

    q_t, k_t, v_t = SiLU(conv(x_t W'))         q_t and k_t of length 1 in each head
    beta_t = sigmoid(x_t W_b')    alpha_t = exp(-exp(A) softplus(x_t W_a' + dt))
    S_t = S_{t-1} alpha_t (I - beta_t k_t k_t') + beta_t v_t k_t'                  Eq. 10
    x_t <- x_t + (RMSNorm(S_t q_t) SiLU(x_t W_g')) W_o'
    x_t <- x_t + (SiLU(x_t W_1') (x_t W_2')) W_3'

Both lines read x through an RMS norm, and so does the head (Yang, Kautz and Hatamizadeh 2025).
Convolutions are causal, over `convolution` steps of each channel. `_delta_rule.py` has the rule
step by step, and by chunks, which models run.

With `attention_every` = 4, every fourth layer has causal attention with rotary positions instead
of the memory, as Qwen3-Next has. Attention reads its window alone, so then only the window counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.config.registry import EXACT, WINDOW
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
from ablate.lm.components.backbone import _delta_rule as rule
from ablate.lm.components.backbone import _stream as stream
from ablate.lm.components.backbone._attention import CausalAttention, Heads, Turns, rotary_turns

CHUNK = 64  # steps; more of them make larger triangular systems, fewer make more of them
DECAY = (1.0, 16.0)  # exp(A) starts uniform between these, as in Mamba2
STEP = (0.001, 0.1)  # softplus(dt) starts between these, uniform in its logarithm
BASE = 10000.0  # of the rotary positions


@dataclass(frozen=True, kw_only=True)
class GatedDeltaConfig:
    """Residual layers of a memory and a feed-forward part each."""

    num_layers: int = setting(2, doc="number of layers", low=1, high=1000)
    units: int = setting(200, doc="units of every layer", low=1)
    heads: int = setting(4, doc="heads, each with a memory of its own", low=1)
    value_factor: int = setting(2, doc="units of a value, over those of a key", low=1)
    convolution: int = setting(4, doc="steps of the convolutions; 1: none", low=1, high=1000)
    inner_units: int | None = setting(
        None, doc="units of the feed-forward part; none: 8/3 of units", low=1
    )
    attention_every: int = setting(
        0, doc="one layer in this many has attention instead of a memory; 0: none", low=0
    )
    initial_deviation: float = setting(
        0.02, doc="matrices start normal with this standard deviation", low=0
    )

    @property
    def inner(self) -> int:
        """The units of the feed-forward part."""
        return self.inner_units or math.ceil(8 * self.units / 3)

    def linear(self, inputs: int, outputs: int) -> stream.Linear:
        """A matrix whose first values do not depend on its size."""
        return stream.Linear(inputs, outputs, self.initial_deviation, falls=0)

    def attends(self, layer: int) -> bool:
        """Return whether a layer, counted from 0, has attention."""
        return self.attention_every > 0 and (layer + 1) % self.attention_every == 0


class Memory(nn.Module):
    """The gated delta rule over a window; the states are the convolutions' last inputs, and S' of
    each head, [A, B, K, D]."""

    def __init__(self, config: GatedDeltaConfig) -> None:
        super().__init__()
        self.heads, linear = config.heads, config.linear
        self.key = stream.units_per_head(config.units, config.heads)
        self.value = self.key * config.value_factor
        values = config.units * config.value_factor
        self.sizes = (config.units, config.units, values)
        self.query_key_value = linear(config.units, sum(self.sizes))
        self.rates = linear(config.units, 2 * config.heads)
        self.gate = linear(config.units, values)
        self.convolution = stream.ShortConvolution(sum(self.sizes), config.convolution)
        self.log_decay = nn.Parameter(torch.empty(config.heads))
        self.step_bias = nn.Parameter(torch.empty(config.heads))
        self.norm = stream.Norm(self.value, centred=False)
        self.out = linear(values, config.units)

    def initial_state(self, rows: int) -> State:
        memory = self.log_decay.new_zeros(self.heads, rows, self.key, self.value)
        return self.convolution.initial_state(rows, memory), memory

    def forward(self, x_TBH: Tensor, state: State) -> tuple[Tensor, State]:
        """What is added to the stream, and the states after the window."""
        read_TBC, last_KBC = self.convolution(self.query_key_value(x_TBH), state[0])
        parts = F.silu(read_TBC).split(self.sizes, -1)
        q_BATK, k_BATK, v_BATD = (stream.by_head(part, self.heads) for part in parts)
        inputs = (q_BATK, k_BATK, v_BATD, self.rates(x_TBH), state[1])
        y_BATD, s_ABKD = stream.in_float32(self._remembered, *inputs)
        y_TBAD = self.norm(y_BATD.permute(2, 0, 1, 3))
        return self.out(y_TBAD.flatten(2) * F.silu(self.gate(x_TBH))), (last_KBC, s_ABKD)

    def _remembered(
        self, q_BATK: Tensor, k_BATK: Tensor, v_BATD: Tensor, rates_TBR: Tensor, s_ABKD: Tensor
    ) -> tuple[Tensor, Tensor]:
        pre_BAT, beta_BAT = rates_TBR.permute(1, 2, 0).chunk(2, 1)
        step_BAT = F.softplus(pre_BAT + self.step_bias[:, None])
        log_alpha_BAT = -self.log_decay.exp()[:, None] * step_BAT
        q_BATK, k_BATK = (F.normalize(x, dim=-1) for x in (q_BATK, k_BATK))
        inputs = (q_BATK, k_BATK, v_BATD, log_alpha_BAT, beta_BAT.sigmoid())
        y_BATD, s_BAKD = stream.in_chunks(rule.chunk, CHUNK, inputs, s_ABKD.transpose(0, 1))
        return y_BATD, s_BAKD.transpose(0, 1)

    def initialize(self, draw: Draw) -> None:
        """Draw the rates of forgetting: half-lives from less than a step to hundreds."""
        self.log_decay.data.uniform_(*DECAY, generator=draw("log_decay")).log_()
        low, high = map(math.log, STEP)
        step_A = self.step_bias.data.uniform_(low, high, generator=draw("step_bias")).exp_()
        step_A.copy_(step_A.expm1().log())  # the inverse of softplus


class Attention(nn.Module):
    """Attention over a window in place of a memory, with rotary positions; it has no states."""

    def __init__(self, config: GatedDeltaConfig) -> None:
        super().__init__()
        width = 3**0.5 * config.initial_deviation  # uniform, with the same standard deviation
        self.heads = Heads(units=config.units, heads=config.heads, initial_range=width)
        if self.heads.size % 2:
            raise CombinationError(
                f"rotary positions turn pairs of units, and backbone.units = {config.units} over "
                f"backbone.heads = {config.heads} gives each head {self.heads.size}. Instead: an "
                "even number of units for each head, or backbone.attention_every = 0."
            )
        self.attention = CausalAttention(self.heads)

    def initial_state(self, rows: int) -> State:
        return ()

    def forward(self, x_TBH: Tensor, state: State) -> tuple[Tensor, State]:
        """What is added to the stream."""
        turns: Turns = rotary_turns(len(x_TBH), self.heads.size, BASE, x_TBH)
        return self.attention(x_TBH, turns), ()


class Layer(nn.Module):
    """A memory or attention, and a feed-forward part after it."""

    def __init__(self, config: GatedDeltaConfig, *, attends: bool) -> None:
        super().__init__()
        units, linear = config.units, config.linear
        self.norm = stream.Norm(units, centred=False)
        self.mixer = (Attention if attends else Memory)(config)
        self.inner_norm = stream.Norm(units, centred=False)
        self.inner = linear(units, 2 * config.inner)
        self.out = linear(config.inner, units)

    def initial_state(self, rows: int) -> State:
        return self.mixer.initial_state(rows)

    def forward(self, x_TBH: Tensor, state: State) -> tuple[Tensor, State]:
        """The stream after the layer, and its states after the window."""
        mixed_TBH, last = self.mixer(self.norm(x_TBH), state)
        x_TBH = x_TBH + mixed_TBH
        gate_TBI, inner_TBI = self.inner(self.inner_norm(x_TBH)).chunk(2, -1)
        return x_TBH + self.out(F.silu(gate_TBI) * inner_TBI), last


@register(
    "backbone",
    "gated_delta",
    config=GatedDeltaConfig,
    paper="yang2025gateddelta",
    equation="Eq. 10 and Section 3.4",
    departures=(
        "keys have `units` units in all, where the paper's models have three quarters of them",
        "a chunk solves its triangular system with the state at its start among the right sides; "
        "the paper solves for all chunks first. The sums are the same",
        "the layers with attention are those of Qwen3-Next in kind, every fourth one, but have "
        "neither its output gate nor its partial rotary positions",
    ),
)
@final
class GatedDelta(Backbone):
    """Residual layers, the last one's output under a norm. A layer's states are the last inputs of
    its convolutions, and the transposed S of each head, [A, B, K, D]."""

    sites = frozenset({"hidden", "output"})

    @classmethod
    def memory_of(cls, config: Any) -> str:
        attends = 0 < config.attention_every <= config.num_layers
        return WINDOW if attends else EXACT

    def __init__(self, config: GatedDeltaConfig, shapes: Shapes) -> None:
        super().__init__()
        if config.attention_every > config.num_layers:
            raise CombinationError(
                f"backbone.attention_every = {config.attention_every} and backbone.num_layers = "
                f"{config.num_layers}: no layer would have attention. Instead: as many layers or "
                "more, or attention_every = 0."
            )
        self.widths = (config.units,) * config.num_layers
        self.config = config
        deviation = config.initial_deviation
        self.enter = stream.entrance(shapes.embedding, config.units, deviation, falls=0)
        self.layers = nn.ModuleList(
            Layer(config, attends=config.attends(layer)) for layer in range(config.num_layers)
        )
        self.norm = stream.Norm(config.units, centred=False)

    def initial_state(self, rows: int) -> State:
        return stream.initial_state(self.layers, rows)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        def apply(layer: Layer, x: Tensor, last: State) -> tuple[Tensor, State]:
            return layer(x, last)

        return stream.run(self.layers, self.norm, self.enter(inputs_TBE), state, masks, apply)

    def operations(self, steps: int) -> int:
        """Of the memories; attention is a part that counts its own."""
        config = self.config
        memories = sum(not config.attends(layer) for layer in range(config.num_layers))
        key = config.units // config.heads
        once = rule.operations(steps, CHUNK, key, key * config.value_factor)
        return memories * config.heads * once

    def group(self, name: str) -> str:
        return stream.group(self, name)

    def initialize(self, draw: Draw) -> None:
        """Draw nothing: its parts are initialized by themselves."""
