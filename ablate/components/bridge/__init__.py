"""Bridges: what stands between the backbone and the head."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from ablate.components.flow import Draw, Features
from ablate.components.regularizer import Masks


class Bridge(nn.Module, ABC):
    """Built as `Bridge(config, shapes)`; `width` is that of the output it hands on."""

    width: int

    @abstractmethod
    def forward(self, features: Features, masks: Masks) -> Features:
        """The features with another `output_TBH`."""

    @abstractmethod
    def initialize(self, draw: Draw) -> None:
        """Draw every parameter from the stream of its own name."""
