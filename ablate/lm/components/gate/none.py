"""No gate: the head's logits are not changed."""

from __future__ import annotations

from typing import final

from ablate.lm.components import Features, Gate, Masks, Shapes, State, register


@register("gate", "none")
@final
class NoGate(Gate):
    """softmax(s); a gate would make it softmax(g * s)."""

    def __init__(self, config: object, shapes: Shapes) -> None:
        super().__init__()

    def forward(self, features: Features, state: State, masks: Masks) -> tuple[None, State]:
        return None, ()
