"""Mamba-2 (Dao & Gu 2024): a state-space layer whose state decays by one number a head.

    z, x, B, C, d = W_in norm(u),    x, B, C <- SiLU(conv(x, B, C)),    d <- softplus(d + bias)
    S_t = a_t S_{t-1} + d_t x_t B_t',    y_t = S_t C_t + D x_t,    a_t = exp(-exp(A) d_t)
    u <- u + W_out RMSNorm(y * SiLU(z))

Every head has P units of x, a state S of P x N, a step d, and the numbers A and D. Groups are of R
heads in a row: head h reads B and C of group h // R. RMSNorm is of each group's units by itself. A
window is computed in chunks (`fast/ssd.py`, the paper's SSD).

Shape suffixes: I units of x and z, D heads, in G groups of R, P units of a head, N numbers of B and
of C; C channels of the convolution, K words before the window; others as in `flow.py`.
"""

from __future__ import annotations

import math
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
from ablate.lm.components.backbone import _stream as stream
from ablate.lm.model.fast.precision import full
from ablate.lm.model.fast.ssd import num_chunks, ssd


@dataclass(frozen=True, kw_only=True)
class Mamba2Config:
    """The blocks, their heads and states, and where their steps start."""

    num_layers: int = setting(2, doc="number of blocks", low=1, high=1000)
    units: int = setting(200, doc="units of every block's input and output", low=1)
    expansion: int = setting(2, doc="units of x and z, as a multiple", low=1)
    heads: int = setting(8, doc="heads among which the units of x are divided", low=1)
    groups: int = setting(1, doc="groups of heads; heads of a group share B, C and a norm", low=1)
    state: int = setting(64, doc="N: numbers in the state for each unit of x", low=1)
    convolution: int = setting(4, doc="words that the convolution reads; 1: none", low=1)
    smallest_step: float = setting(0.001, doc="smallest d at first, before its input", low=1e-6)
    largest_step: float = setting(0.1, doc="largest d at first, before its input", low=1e-6)
    largest_decay: float = setting(16.0, doc="exp(A) is uniform from 1 to this at first", low=1)


class Mamba2Block(nn.Module):
    """One block; its states are the convolution's last inputs, [K, B, C], and S, [GR, B, P, N]."""

    def __init__(self, config: Mamba2Config) -> None:
        super().__init__()
        self.config = config
        units, inner, heads = config.units, config.units * config.expansion, config.heads
        self.sizes = (inner, inner + 2 * config.groups * config.state, heads)  # z; x, B, C; d
        self.norm = stream.Norm(units, centred=False)
        self.weight_in = nn.Parameter(torch.empty(sum(self.sizes), units))
        self.convolution = stream.ShortConvolution(self.sizes[1], config.convolution, bias=True)
        self.bias_step = nn.Parameter(torch.empty(heads))
        self.log_decay = nn.Parameter(torch.empty(heads))  # A
        self.skip = nn.Parameter(torch.empty(heads))  # D
        groups = config.groups
        self.inner_norm = stream.Norm(groups, inner // groups, centred=False)
        self.weight_out = nn.Parameter(torch.empty(units, inner))

    def initial_state(self, rows: int) -> State:
        """No inputs before the first, and a state of 0."""
        heads, per_head = len(self.skip), self.sizes[0] // len(self.skip)
        zeros = self.skip.new_zeros(heads, rows, per_head, self.config.state)
        return self.convolution.initial_state(rows, self.skip), zeros

    def forward(self, u_TBH: Tensor, states: State) -> tuple[Tensor, Tensor, Tensor]:
        parts = full(F.linear(self.norm(u_TBH), self.weight_in)).split(self.sizes, -1)
        z_TBI, read_TBC, step_TBD = parts
        read_TBC, inputs_KBC = self.convolution(read_TBC, states[0])
        window, heads = self._window(F.silu(read_TBC), step_TBD), (self.config.groups, -1)
        a_GR = -self.log_decay.exp().unflatten(0, heads)
        s_BGRPN = states[1].movedim(1, 0).unflatten(1, heads)
        y_TBGRP, s_BGRPN = ssd(*window, a_GR, s_BGRPN)
        y_TBGRP = y_TBGRP + self.skip.view_as(a_GR)[..., None] * window[0]
        gated_TBI = y_TBGRP.flatten(2) * F.silu(z_TBI)
        y_TBI = self.inner_norm(gated_TBI.unflatten(-1, heads)).flatten(2)
        after_DBPN = s_BGRPN.flatten(1, 2).movedim(1, 0)
        return u_TBH + F.linear(y_TBI, self.weight_out), inputs_KBC, after_DBPN

    def _window(self, read_TBC: Tensor, step_TBD: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """x, d, B and C by group and head."""
        config = self.config
        shared = config.groups * config.state
        x_TBI, b_TBC, c_TBC = read_TBC.split((self.sizes[0], shared, shared), -1)
        heads = (config.groups, config.heads // config.groups)
        d_TBGR = F.softplus(step_TBD + self.bias_step).unflatten(-1, heads)
        b_TBGN, c_TBGN = (x.unflatten(-1, (config.groups, -1)) for x in (b_TBC, c_TBC))
        return x_TBI.unflatten(-1, (*heads, -1)), d_TBGR, b_TBGN, c_TBGN

    def initialize(self, draw: Draw) -> None:
        """As the paper's code: steps uniform in their logarithm, and decays uniform."""
        config = self.config
        stream.draw_uniform(self, draw, "weight_in", "weight_out")
        self.weight_out.data.mul_(config.num_layers**-0.5)  # all blocks add to one sum
        limits = math.log(config.smallest_step), math.log(config.largest_step)
        step_D = self.bias_step.data.uniform_(*limits, generator=draw("bias_step")).exp()
        self.bias_step.data.copy_(step_D + (-torch.expm1(-step_D)).log())  # softplus, inverted
        decay_D = self.log_decay.data.uniform_(1, config.largest_decay, generator=draw("log_decay"))
        decay_D.log_()
        self.skip.data.fill_(1.0)


@register(
    "backbone",
    "mamba2",
    config=Mamba2Config,
    # In version 1 the norm before W_out was of all groups together.
    version=lambda config: 1 if config.groups == 1 else 2,
    paper="dao2024mamba2",
    equation="Section 7 (the block, Figure 6) over Section 6 (SSD)",
    departures=(
        "the block and its initial values are as in the paper's code, from memory of it",
        "products of a chunk by torch, without the paper's kernels; chunks of at most 64 steps",
    ),
)
@final
class Mamba2(Backbone):
    """Residual blocks; the state is every block's last inputs of the convolution and S."""

    sites = frozenset({"hidden", "output"})
    states_per_layer = 2

    def __init__(self, config: Mamba2Config, shapes: Shapes) -> None:
        super().__init__()
        _check(config)
        self.config = config
        self.widths = (config.units,) * config.num_layers
        last_norm = stream.Norm(config.units, centred=False)
        blocks = [Mamba2Block(config) for _ in self.widths]
        self.stack = stream.Stack(shapes.embedding, blocks, last_norm)

    def group(self, name: str) -> str:
        return stream.group(self, name)

    def initial_state(self, rows: int) -> State:
        return self.stack.initial_state(rows)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        return self.stack.run(inputs_TBE, state, masks)

    def initialize(self, draw: Draw) -> None:
        """Nothing of its own: the stack and its blocks draw theirs."""

    def operations(self, steps: int) -> int:
        """The products of the chunks that a window of `steps` words is computed in: C'B, its
        product with x, and what leaves and enters a state."""
        config = self.config
        inner = config.units * config.expansion
        length = steps / num_chunks(steps)
        within = length * (config.groups * config.state + inner)
        return round(2 * config.num_layers * (within + 2 * inner * config.state))


def _check(config: Mamba2Config) -> None:
    inner = config.units * config.expansion
    if inner % config.heads:
        raise CombinationError(
            f"backbone.heads = {config.heads} do not divide the {inner} units of x "
            f"(backbone.units = {config.units} times backbone.expansion = {config.expansion}) "
            "evenly. Instead: a number of heads that divides them."
        )
    if config.heads % config.groups:
        raise CombinationError(
            f"backbone.groups = {config.groups} do not divide backbone.heads = {config.heads} "
            "evenly. Instead: a number of groups that divides the heads."
        )
    if config.smallest_step > config.largest_step:
        raise CombinationError(
            f"backbone.smallest_step = {config.smallest_step:g} is above backbone.largest_step = "
            f"{config.largest_step:g}. Instead: smallest_step <= largest_step."
        )
