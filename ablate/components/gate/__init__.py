"""Gates: scale the logits inside each component of a head's mixture."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from ablate.components.flow import Draw, Features, GateSignal, State
from ablate.components.regularizer import Masks


class Gate(nn.Module, ABC):
    """Built as `Gate(config, shapes)`."""

    def initial_state(self, rows: int) -> State:
        """What a gate with a memory carries from window to window."""
        return ()

    @abstractmethod
    def forward(
        self, features: Features, state: State, masks: Masks
    ) -> tuple[GateSignal | None, State]:
        """What multiplies the logits (None: no gate), and the state afterwards."""

    @abstractmethod
    def initialize(self, draw: Draw) -> None:
        """Draw every parameter from the stream of its own name."""
