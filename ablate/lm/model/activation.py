"""Nonlinearities by name, each with the slope that a custom backward pass needs.

    smoothed_relu    max(0, x - a tanh(x / a))    Pachitariu & Sahani 2013, RNN of Table 1a

Its slope grows from 0 as tanh(x / a)^2; as a falls to 0 it becomes the rectifier.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ACTIVATIONS = ("sigmoid", "tanh", "relu", "smoothed_relu", "identity")


@dataclass(frozen=True)
class Activation:
    """A nonlinearity f; `smoothing` is the a of the smoothed rectifier."""

    name: str
    smoothing: float = 1.0

    def __call__(self, x: Tensor) -> Tensor:
        if self.name == "smoothed_relu":
            return smoothed_relu(x, self.smoothing)
        return x if self.name == "identity" else getattr(torch, self.name)(x)

    @property
    def keeps_bend(self) -> bool:
        """Return whether the slope needs tanh(x / a) from the forward pass; else f(x) is enough."""
        return self.name == "smoothed_relu"

    def apply_(self, x: Tensor, bend: Tensor | None) -> Tensor:
        """f(x) in place, without gradients; writes tanh(x / a) to `bend` if given."""
        if bend is not None:
            torch.tanh(torch.div(x, self.smoothing, out=bend), out=bend)
            return x.sub_(bend, alpha=self.smoothing).relu_()
        return x if self.name == "identity" else getattr(torch, f"{self.name}_")(x)

    def slope(self, y: Tensor, bend: Tensor | None) -> Tensor | None:
        """f'(x) from y = f(x); None if it is 1 everywhere."""
        if self.name == "sigmoid":
            return y * (1 - y)
        if self.name == "tanh":
            return 1 - y * y
        if self.name == "identity":
            return None
        positive = (y > 0).to(y.dtype)
        return positive if bend is None else bend * bend * positive


def smoothed_relu(x: Tensor, smoothing: float) -> Tensor:
    """max(0, x - a tanh(x / a))."""
    return torch.relu(x - smoothing * torch.tanh(x / smoothing))
