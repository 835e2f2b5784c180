"""No gate: the head's logits are not changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ablate.config.registry import register
from ablate.model.flow import Draw, Features, GateSignal, Shapes, State
from ablate.model.masks import Masks
from ablate.model.slots import Gate


@dataclass(frozen=True, kw_only=True)
class NoGateConfig:
    """No settings."""


@register("gate", "none", config=NoGateConfig)
@final
class NoGate(Gate):
    """softmax(s); a gate would make it softmax(g * s)."""

    def __init__(self, config: NoGateConfig, shapes: Shapes) -> None:
        super().__init__()

    def forward(
        self, features: Features, state: State, masks: Masks
    ) -> tuple[GateSignal | None, State]:
        return None, ()

    def initialize(self, draw: Draw) -> None:
        pass
