"""Gates: scale the logits inside each component of a head's mixture."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from ablate.components.flow import Draw, Features, GateSignal
from ablate.components.regularizer import Masks


class Gate(nn.Module, ABC):
    """Built as `Gate(config, shapes)`."""

    @abstractmethod
    def forward(self, features: Features, masks: Masks) -> GateSignal | None:
        """What multiplies the logits, or None for no gate; mask site: "gate_input"."""

    @abstractmethod
    def initialize(self, draw: Draw) -> None:
        """Draw every parameter from the stream of its own name."""
