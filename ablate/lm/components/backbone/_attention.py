"""Causal attention over a window: Vaswani et al. 2017, Eq. 1, with what came later, each optional.

    q_t, k_t, v_t = x_t W_q', x_t W_k', x_t W_v'       each cut into heads of D units
    y_t = sum_s softmax_s(c(q_t k_s' / sqrt(D))) v_s   over s <= t
    added to the stream: y_t W_o'

    grouped queries    several heads of q read one head of k and v (Ainslie et al. 2023)
    rotary positions   q_t and k_t are turned by angles t base^(-2i/D) (Su et al. 2021, Eq. 34)
    QK norm            q_t and k_t are divided by the root of their mean square (after Henry et al.
                       2020)
    sliding window     over t - w < s <= t (Child et al. 2019)
    soft cap           c(a) = cap tanh(a / cap) (Gemma Team 2024); otherwise c(a) = a

Shape suffixes: T steps that ask, S steps that are read, B rows, H units, A heads, G heads of keys
and values, D units of a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import CombinationError, Draw
from ablate.lm.model.slots import Part
from ablate.lm.model.width import first_range

Turns = tuple[Tensor, Tensor]  # cosines and sines of every step's angles, [T, D / 2]


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The sizes of an attention layer, and what of the above it does."""

    units: int
    heads: int
    key_value_heads: int | None = None  # None: as many as heads
    biases: bool = False
    qk_norm: bool = False
    epsilon: float = 1e-6  # of the QK norm
    window: int = 0  # 0: all steps so far
    soft_cap: float | None = None
    initial_range: float | None = None  # None: 1/sqrt(inputs)
    output_scale: float = 1.0  # of the first values of W_o

    @property
    def groups(self) -> int:
        """The number of heads of keys and values."""
        return self.heads if self.key_value_heads is None else self.key_value_heads

    @property
    def size(self) -> int:
        """The units of a head."""
        return self.units // self.heads


def rotary_turns(steps: int, size: int, base: float, like: Tensor) -> Turns:
    """The turns of steps 0, 1, ... in heads of `size` units."""
    # bfloat16 does not tell step 257 from 256.
    exact = {"dtype": torch.promote_types(like.dtype, torch.float32), "device": like.device}
    speeds = base ** -(torch.arange(0, size, 2, **exact) / size)
    angles_TD = torch.arange(steps, **exact)[:, None] * speeds
    return angles_TD.cos(), angles_TD.sin()


def turned(x_BATD: Tensor, turns: Turns) -> Tensor:
    """Turn the plane of units i and i + D / 2 by the angles of its step."""
    cos, sin = turns
    one, other = x_BATD.chunk(2, -1)
    return torch.cat((one * cos - other * sin, other * cos + one * sin), -1).type_as(x_BATD)


def readable(steps: int, window: int, device: torch.device) -> Tensor:
    """Which steps each step reads, [T, T]: the last `window` up to itself; 0: all so far."""
    every = torch.ones(steps, steps, dtype=torch.bool, device=device)
    return every.tril() if window == 0 else every.tril().triu(1 - window)


def attend(q_BATD: Tensor, k_BGSD: Tensor, v_BGSD: Tensor, heads: Heads) -> Tensor:
    """The mean of the values, weighted by the softmax of the products, [B, A, T, D]."""
    steps, grouped = q_BATD.shape[2], heads.groups != heads.heads
    window = heads.window if heads.window < steps else 0
    if heads.soft_cap is not None:
        return _capped(q_BATD, k_BGSD, v_BGSD, heads, readable(steps, window, q_BATD.device))
    mask = readable(steps, window, q_BATD.device) if window else None
    return F.scaled_dot_product_attention(
        q_BATD, k_BGSD, v_BGSD, attn_mask=mask, is_causal=mask is None, enable_gqa=grouped
    )


def _capped(
    q_BATD: Tensor, k_BGSD: Tensor, v_BGSD: Tensor, heads: Heads, mask_TS: Tensor
) -> Tensor:
    """torch's fused kernels have no cap, so these products are written out."""
    cap, shared = heads.soft_cap, heads.heads // heads.groups
    k_BASD, v_BASD = (x.repeat_interleave(shared, 1) for x in (k_BGSD, v_BGSD))
    scores_BATS = q_BATD @ k_BASD.transpose(2, 3) * heads.size**-0.5
    capped_BATS = cap * (scores_BATS / cap).tanh()
    return capped_BATS.masked_fill(~mask_TS, -torch.inf).softmax(-1).type_as(v_BASD) @ v_BASD


@final
class CausalAttention(Part):
    """Attention from every step of a window to the steps before it, and to itself.

    Part of a backbone: a model initializes it, and counts its operations, without being asked to.
    """

    def __init__(self, heads: Heads) -> None:
        super().__init__()
        _check(heads)
        self.heads = heads
        units, narrow = heads.units, heads.groups * heads.size
        # Apart, so that an optimizer of matrices (muon) treats each as one.
        for name, rows in (("query", units), ("key", narrow), ("value", narrow), ("out", units)):
            self.register_parameter(name, nn.Parameter(torch.empty(rows, units)))
            bias = nn.Parameter(torch.empty(rows)) if heads.biases else None
            self.register_parameter(f"{name}_bias", bias)

    def forward(
        self, x_TBH: Tensor, turns: Turns | None = None, added_TBV: Tensor | None = None
    ) -> Tensor:
        """What is added to the stream. `turns`: rotary positions; `added_TBV`: added to the values
        of all steps, [T, B, G * D]."""
        heads = self.heads
        q_BATD = self._by_head(self._product(x_TBH, "query"), heads.heads)
        k_BGTD = self._by_head(self._product(x_TBH, "key"), heads.groups)
        v_TBV = self._product(x_TBH, "value")
        v_BGTD = self._by_head(v_TBV if added_TBV is None else v_TBV + added_TBV, heads.groups)
        if heads.qk_norm:
            q_BATD, k_BGTD = self._normed(q_BATD), self._normed(k_BGTD)
        if turns is not None:
            q_BATD, k_BGTD = turned(q_BATD, turns), turned(k_BGTD, turns)
        y_BATD = attend(q_BATD, k_BGTD, v_BGTD, heads)
        return self._product(y_BATD.permute(2, 0, 1, 3).flatten(2), "out")

    def _product(self, x_TBH: Tensor, name: str) -> Tensor:
        return F.linear(x_TBH, getattr(self, name), getattr(self, f"{name}_bias"))

    def _by_head(self, x_TBV: Tensor, heads: int) -> Tensor:
        return x_TBV.unflatten(-1, (heads, self.heads.size)).permute(1, 2, 0, 3)

    def _normed(self, x_BATD: Tensor) -> Tensor:
        return F.rms_norm(x_BATD, x_BATD.shape[-1:], eps=self.heads.epsilon)

    def operations(self, steps: int) -> int:
        """Of every step's products with all steps, which torch's plain kernel computes. Faster ones
        may leave out what is masked: steps ahead, or before a sliding window."""
        return 4 * steps * self.heads.units

    def initialize(self, draw: Draw) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.data.zero_()
                continue
            bound = first_range(parameter, self.heads.initial_range, self.heads.units)
            bound *= self.heads.output_scale if name == "out" else 1
            parameter.data.uniform_(-bound, bound, generator=draw(name))


def _check(heads: Heads) -> None:
    """Refuse heads that do not divide the units, or one another."""
    if heads.units % heads.heads:
        raise CombinationError(
            f"backbone.heads = {heads.heads} does not divide backbone.units = {heads.units}. "
            "Instead: a number of heads that does."
        )
    if heads.heads % heads.groups:
        raise CombinationError(
            f"backbone.key_value_heads = {heads.groups} does not divide backbone.heads = "
            f"{heads.heads}. Instead: a number that does, or none, for as many as heads."
        )
