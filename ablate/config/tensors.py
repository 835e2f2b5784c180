"""torch where it is installed: a study of plain functions runs without it.

    from ablate.config.tensors import Tensor, torch

Without torch, each of its names is a class that nothing is an instance of, so
`isinstance(value, Tensor)` is false. Whoever makes tensors has torch; what ablate itself puts into
a checkpoint is then a numpy array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np


class _Missing(type):
    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class Missing(metaclass=_Missing):
    """Stands for torch, its modules and its classes."""


if TYPE_CHECKING:
    import torch
else:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        torch = Missing

HAS_TORCH: bool = torch is not Missing
Tensor = torch.Tensor
is_lazy = torch.nn.parameter.is_lazy


def as_tensor(array: np.ndarray) -> Any:
    """Return the array as a tensor, on the same memory."""
    return torch.from_numpy(array) if HAS_TORCH else array


def from_bytes(data: bytes) -> Any:
    """Return a tensor of a copy of the bytes."""
    return as_tensor(np.frombuffer(bytearray(data), dtype=np.uint8))
