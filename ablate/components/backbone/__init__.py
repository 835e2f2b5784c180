"""Backbones: from word vectors to a vector for every step and layer."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from ablate.components.flow import Draw, State
from ablate.components.regularizer import Masks
from ablate.errors import CombinationError


def one_a_layer(units: int | tuple[int, ...], num_layers: int) -> tuple[int, ...]:
    """The units of each layer, where one number stands for all."""
    widths = (units,) * num_layers if isinstance(units, int) else units
    if len(widths) != num_layers:
        raise CombinationError(
            f"backbone.units names {len(widths)} layers ({list(widths)}), but backbone.num_layers "
            f"= {num_layers}. Give one number for all, or as many as there are layers."
        )
    return widths


class Backbone(nn.Module, ABC):
    """Built as `Backbone(config, shapes)`; says its layers' units in `widths`.

    Masks are asked for by site: "hidden" between layers, "output" after the last, "recurrent"
    on the recurrent state, and `masks.weight` for recurrent matrices. ("input", on the word
    vectors, is applied before the backbone.)

    A backbone of several gates, each of which may read under a mask of its own, asks
    `masks.held` for [gates, B, H] at "recurrent/<layer>", and at "gates/input" and
    "gates/hidden/<layer>" for masks on what the gates read there.
    """

    widths: tuple[int, ...]
    num_gates = 1

    @abstractmethod
    def initial_state(self, rows: int) -> State:
        """The state before the first token: zeros, on the parameters' device."""

    @abstractmethod
    def forward(
        self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], State]:
        """Each layer's output before masks, and after, and the state after the last step."""

    @abstractmethod
    def initialize(self, draw: Draw) -> None:
        """Draw every parameter from the stream of its own name."""

    def project(self) -> None:
        """Move its parameters back onto a constraint of its own after an update, in place."""

    def group(self, name: str) -> str:
        """The group of a parameter, by which penalties are told apart: "recurrent_input",
        "recurrent", "bias", or one of a technique's own ("mogrifier")."""
        if "bias" in name:
            return "bias"
        return "recurrent_input" if name.startswith("weight_ih") else "recurrent"
