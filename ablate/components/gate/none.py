"""No gate: the logits stay as the head gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ablate.components.flow import Draw, Features, GateSignal, Shapes, State
from ablate.components.gate import Gate
from ablate.components.regularizer import Masks
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class NoGateConfig:
    """Nothing to set."""


@register("gate", "none", config=NoGateConfig)
@final
class NoGate(Gate):
    """softmax(s), where a gate would make it softmax(g * s)."""

    def __init__(self, config: NoGateConfig, shapes: Shapes) -> None:
        super().__init__()

    def forward(
        self, features: Features, state: State, masks: Masks
    ) -> tuple[GateSignal | None, State]:
        return None, ()

    def initialize(self, draw: Draw) -> None:
        pass
