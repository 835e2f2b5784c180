"""What tests that write a network's layers by hand share: parameters and functions in numpy."""

from __future__ import annotations

import math

import numpy as np
from torch import nn


def numbers(module: nn.Module) -> dict[str, np.ndarray]:
    """Its parameters as float64 arrays."""
    return {name: p.detach().double().numpy() for name, p in module.named_parameters()}


def rms_norm(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gain


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)
