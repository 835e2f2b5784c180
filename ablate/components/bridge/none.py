"""No bridge: the head reads the backbone's last layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ablate.config.registry import register
from ablate.model.flow import Draw, Features, Shapes
from ablate.model.masks import Masks
from ablate.model.slots import Bridge


@dataclass(frozen=True, kw_only=True)
class NoBridgeConfig:
    """No settings."""


@register("bridge", "none", config=NoBridgeConfig)
@final
class NoBridge(Bridge):
    """The output is the last layer's masked output."""

    def __init__(self, config: NoBridgeConfig, shapes: Shapes) -> None:
        super().__init__()
        self.width = shapes.layers[-1]

    def forward(self, features: Features, masks: Masks) -> Features:
        return features

    def initialize(self, draw: Draw) -> None:
        pass
