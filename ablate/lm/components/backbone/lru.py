"""The linear recurrent unit (LRU, Orvieto et al. 2023): a complex diagonal linear recurrence.

    lambda = exp(-exp(nu) + i exp(theta)),    gamma = sqrt(1 - |lambda|^2) at first, and trained
    h_t = lambda * h_{t-1} + gamma * (B u_t),    y_t = Re(C h_t) + D * u_t

so |lambda| < 1 for every nu. At first lambda is uniform over the ring r_min <= |lambda| <= r_max of
the complex plane, up to the phase `max_phase`. A block is

    u = LayerNorm(x),    v = GELU(y),    x <- x + (W1 v + b1) * sigmoid(W2 v + b2)

h has N complex numbers, held as 2N real ones in turn: real part, imaginary part. B and C are real
matrices of as many rows and columns, so that both products are those of real numbers; C's columns
hold Re C and -Im C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

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
from ablate.lm.model.fast.scan import scan

SMALLEST = 1e-6  # of a uniform draw whose logarithm is taken


@dataclass(frozen=True, kw_only=True)
class LruConfig:
    """The blocks, and where their eigenvalues start."""

    also_widths: ClassVar = ("state",)

    num_layers: int = setting(2, doc="number of blocks", low=1, high=1000)
    units: int = setting(200, doc="units of every block's input and output", low=1)
    state: int = setting(200, doc="complex numbers in the state of a block", low=1)
    r_min: float = setting(0.0, doc="smallest |lambda| at first", low=0, high=0.9999)
    r_max: float = setting(1.0, doc="largest |lambda| at first", low=0.001, high=1)
    max_phase: float = setting(
        6.28, doc="largest phase of a lambda at first, in radians", low=1e-6, high=2 * math.pi
    )
    normalize: bool = setting(
        True, doc="scale the inputs of the state by gamma, so that all of it starts equally large"
    )
    gated: bool = setting(True, doc="a gated unit after the recurrence; false: only its GELU")


def eigenvalues(nu_N: Tensor, theta_N: Tensor) -> Tensor:
    """lambda = exp(-exp(nu) + i exp(theta)), complex."""
    return torch.polar(torch.exp(-nu_N.exp()), theta_N.exp())


def in_ring(
    radius_N: Tensor, phase_N: Tensor, r_min: float, r_max: float, max_phase: float
) -> tuple[Tensor, Tensor]:
    """nu and theta of eigenvalues that are uniform over a ring, from two uniform draws in [0, 1]
    (Lemma 3.2)."""
    square_N = radius_N.clamp(SMALLEST, 1 - SMALLEST) * (r_max**2 - r_min**2) + r_min**2
    nu_N = (-0.5 * square_N.log()).log()
    return nu_N, (max_phase * phase_N.clamp_min(SMALLEST)).log()


def as_complex(x: Tensor) -> Tensor:
    """[..., 2N] real numbers as [..., N] complex ones."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())


def as_real(x: Tensor) -> Tensor:
    """[..., N] complex numbers as [..., 2N] real ones."""
    return torch.view_as_real(x).flatten(-2)


class LruBlock(nn.Module):
    """One block; its state is h, [1, B, 2N]."""

    def __init__(self, config: LruConfig) -> None:
        super().__init__()
        self.config = config
        units, state = config.units, config.state
        self.norm = stream.Norm(units, centred=True, bias=True)
        self.nu = nn.Parameter(torch.empty(state))
        self.theta = nn.Parameter(torch.empty(state))
        self.log_gamma = nn.Parameter(torch.empty(state)) if config.normalize else None
        self.weight_b = nn.Parameter(torch.empty(2 * state, units))
        self.weight_c = nn.Parameter(torch.empty(units, 2 * state))
        self.skip = nn.Parameter(torch.empty(units))
        self.weight_gate = self.bias_gate = None
        if config.gated:
            self.weight_gate = nn.Parameter(torch.empty(2 * units, units))  # W1, then W2
            self.bias_gate = nn.Parameter(torch.empty(2 * units))

    def initial_state(self, rows: int) -> State:
        """A state of 0."""
        return (self.nu.new_zeros(1, rows, 2 * self.config.state),)

    def forward(self, x_TBH: Tensor, states: State) -> tuple[Tensor, Tensor]:
        u_TBH = self.norm(x_TBH)
        y_TBH, after_1BN = self.recur(u_TBH, states[0])
        v_TBH = F.gelu(y_TBH)
        if self.weight_gate is not None:
            v_TBH = F.glu(F.linear(v_TBH, self.weight_gate, self.bias_gate), -1)
        return x_TBH + v_TBH, after_1BN

    def recur(self, u_TBH: Tensor, before_1BN: Tensor) -> tuple[Tensor, Tensor]:
        """Every y_t, [T, B, H], and the last state."""
        weight_b = self.weight_b
        if self.log_gamma is not None:
            weight_b = weight_b * self.log_gamma.exp().repeat_interleave(2)[:, None]
        inputs_TBN = as_complex(full(F.linear(u_TBH, weight_b)))
        factors_11N = eigenvalues(self.nu, self.theta)[None, None]
        h_TBN = as_real(scan(factors_11N, inputs_TBN, as_complex(before_1BN)[0]))
        return F.linear(h_TBN, self.weight_c) + self.skip * u_TBH, h_TBN[-1:]

    def initialize(self, draw: Draw) -> None:
        """The ring, and normal matrices (Appendix A)."""
        config, data = self.config, torch.empty_like(self.nu)
        radius_N, phase_N = (
            data.uniform_(generator=draw(name)).clone() for name in ("nu", "theta")
        )
        nu_N, theta_N = in_ring(radius_N, phase_N, config.r_min, config.r_max, config.max_phase)
        self.nu.data.copy_(nu_N)
        self.theta.data.copy_(theta_N)
        if self.log_gamma is not None:
            self.log_gamma.data.copy_(0.5 * torch.log1p(-eigenvalues(nu_N, theta_N).abs().square()))
        deviations = {
            "weight_b": (2 * config.units) ** -0.5, "weight_c": config.state**-0.5, "skip": 1.0
        }  # fmt: skip
        for name, deviation in deviations.items():
            self.get_parameter(name).data.normal_(0, deviation, generator=draw(name))
        if self.bias_gate is not None:
            stream.draw_uniform(self, draw, "weight_gate")
            self.bias_gate.data.zero_()


@register(
    "backbone",
    "lru",
    config=LruConfig,
    paper="orvieto2023lru",
    equation="Eq. 7 and 8; the ring: Lemma 3.2; the block: Figure 1 and Appendix A",
    departures=(
        "layer normalization, before the recurrence, and once more after the last block; the paper "
        "also has batch normalization",
        "the block was written from memory of the paper; its figure leaves open where GELU stands",
    ),
)
@final
class Lru(Backbone):
    """Residual blocks; the state is every block's h, [1, B, 2N] each."""

    sites = frozenset({"hidden", "output"})

    def __init__(self, config: LruConfig, shapes: Shapes) -> None:
        super().__init__()
        if config.r_min >= config.r_max:
            raise CombinationError(
                f"backbone.r_min = {config.r_min:g} and backbone.r_max = {config.r_max:g} leave no "
                "ring for the eigenvalues to start in. Instead: r_min < r_max."
            )
        self.widths = (config.units,) * config.num_layers
        last_norm = stream.Norm(config.units, centred=True, bias=True)
        blocks = [LruBlock(config) for _ in self.widths]
        self.stack = stream.Stack(shapes.embedding, blocks, last_norm)

    def group(self, name: str) -> str:
        return stream.group(self, name)

    def initial_state(self, rows: int) -> State:
        return self.stack.initial_state(rows)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        return self.stack.run(inputs_TBE, state, masks)

    def initialize(self, draw: Draw) -> None:
        """Nothing of its own: the stack and its blocks draw theirs."""
