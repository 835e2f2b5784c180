"""The impulse-response language model (IRLM, Pachitariu & Sahani 2013): linear, one r a unit.

    x_t = W[y_t] + r * x_{t-1},    r in [-1, 1],    no biases

W is the embedding: the word vectors feed the units directly. A unit forgets over -1 / log|r| words.
After every update r is clipped to the range of its unit's group: the paper has 384 long-context
units in [0.7, 1] and 128 others that start at 0; its "long" initialization is 0.9 for all units.

The recurrence is a `scan` with one factor a unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from ablate.errors import CombinationError
from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register, setting
from ablate.lm.components.backbone._simple import scale_rate
from ablate.lm.model.fast.scan import scan


@dataclass(frozen=True, kw_only=True)
class IrlmConfig:
    """The groups of units, and the range of r in each."""

    also_widths: ClassVar = ("groups",)

    units: int = setting(512, doc="number of units; must equal embedding.size", low=1)
    groups: tuple[int, ...] = setting(
        (), doc="units of each group, for per-group values below; empty: one group", low=1
    )
    lowest: float | tuple[float, ...] = setting(
        -1.0, doc="lower bound of r, or a list with one number per group", low=-1, high=1
    )
    highest: float | tuple[float, ...] = setting(
        1.0, doc="upper bound of r, or a list with one number per group", low=-1, high=1
    )
    initial: float | tuple[float, ...] = setting(
        0.5, doc="initial r, or a list with one number per group", low=-1, high=1
    )
    recurrent_rate: float = setting(0.001, doc="share of the learning rate for r; 0: fixed", low=0)


def timescales(r_H: Tensor) -> Tensor:
    """-1 / log r, in words: infinite for r = 1, NaN where r is not positive."""
    return torch.where(r_H > 0, 1 / r_H.log().abs(), torch.nan)


def impulse_response(w_TBH: Tensor, x_BH: Tensor, r_BH: Tensor) -> Tensor:
    """Every x_t = w_t + r * x_{t-1}, [T, B, H]; r per row, or [1, H] for all rows."""
    return scan(r_BH[None], w_TBH, x_BH)


@register(
    "backbone",
    "irlm",
    config=IrlmConfig,
    paper="pachitariu2013irlm",
    equation="IRLM of Tables 1 and 2; groups: Table 1d",
    departures=("r starts at 0.5 by default: the paper gives only its long initialization, 0.9",),
)
@final
class Irlm(Backbone):
    """One linear layer; the state is the last x, [1, B, H]. Mask "recurrent/1" is on x_{t-1}."""

    sites = frozenset({"output", "recurrent", "weight"})

    def __init__(self, config: IrlmConfig, shapes: Shapes) -> None:
        super().__init__()
        if shapes.embedding != config.units:
            raise CombinationError(
                f"the irlm adds the word vectors directly to its units, but embedding.size = "
                f"{shapes.embedding} and backbone.units = {config.units}. Instead: set "
                f"embedding.size = {config.units}, or backbone.units = {shapes.embedding}; an "
                f"elman with backbone.activation = 'identity' reads word vectors of any size."
            )
        self.widths = (config.units,)
        # Not saved with the weights: the config has them.
        for name, values in unit_values(config).items():
            self.register_buffer(name, torch.tensor(values), persistent=False)
        self.r = nn.Parameter(torch.empty(config.units))
        scale_rate(self.r, config.recurrent_rate)

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        r_BH = masks.weight("r", self.r)[None]
        mask = masks.locked("recurrent/1", (1, *inputs_TBE.shape[1:]), inputs_TBE)
        if mask is not None:
            r_BH = r_BH * mask[0]
        x_TBH = impulse_response(inputs_TBE, state[0][0], r_BH)
        return (x_TBH,), (masks("output", x_TBH),), (x_TBH[-1:],)

    def initialize(self, draw: Draw) -> None:
        self.r.data.copy_(self.get_buffer("initial"))

    def project(self) -> None:
        # Not with recurrent_rate = 0, or where only a gate is trained.
        if self.r.requires_grad:
            self.r.data.clamp_(self.get_buffer("lowest"), self.get_buffer("highest"))


def unit_values(config: IrlmConfig) -> dict[str, list[float]]:
    """The lowest, the highest and the initial r of every unit, by the name of their field."""
    groups = config.groups or (config.units,)
    if sum(groups) != config.units:
        raise CombinationError(
            f"backbone.groups = {list(groups)} have {sum(groups)} units in total, but "
            f"backbone.units = {config.units}. Instead: groups with {config.units} units in total, "
            "or no groups."
        )
    fields = ("lowest", "highest", "initial")
    by_group = {field: _by_group(config, field, len(groups)) for field in fields}
    for group, (low, high, start) in enumerate(zip(*by_group.values(), strict=True), 1):
        if not low <= start <= high:
            raise CombinationError(
                f"backbone.initial = {start:g} of group {group} is outside its range, from "
                f"backbone.lowest = {low:g} to backbone.highest = {high:g}. Instead: lowest <= "
                "initial <= highest in every group."
            )
    return {
        field: [v for v, units in zip(values, groups, strict=True) for _ in range(units)]
        for field, values in by_group.items()
    }


def _by_group(config: IrlmConfig, field: str, num: int) -> tuple[float, ...]:
    value = getattr(config, field)
    values = value if isinstance(value, tuple) else (value,) * num
    if len(values) != num:
        raise CombinationError(
            f"backbone.{field} = {list(values)} has {len(values)} values for {num} groups "
            "(backbone.groups). Instead: one number for all groups, or one per group."
        )
    return values
