"""No bridge: the head reads the backbone's last layer."""

from __future__ import annotations

from typing import final

from ablate.lm.components import Bridge, Features, Masks, Shapes, register


@register("bridge", "none")
@final
class NoBridge(Bridge):
    """The output is the last layer's masked output."""

    def __init__(self, config: object, shapes: Shapes) -> None:
        super().__init__()
        self.width = shapes.layers[-1]

    def forward(self, features: Features, masks: Masks) -> Features:
        return features
