"""No attention: of the source, the decoder knows only the state that it starts from."""

from __future__ import annotations

from typing import final

from torch import Tensor

from ablate.lm.components import Attention, CombinationError, Memory, Shapes, register


@register("attention", "none")
@final
class NoAttention(Attention):
    """It adds no layer."""

    def __init__(self, config: object, shapes: Shapes) -> None:
        super().__init__()

    def forward(self, query_TBH: Tensor, memory: Memory) -> Tensor:
        # A decoder never asks an attention without a width.
        raise CombinationError("attention = 'none' adds no layer.")
