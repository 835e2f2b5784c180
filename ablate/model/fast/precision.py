"""Half precision for the matrix products of training, by torch's autocast.

Parameters, states, losses, optimizers and evaluation stay float32. A function with a custom
backward pass also runs in float32, unless it queries autocast's dtype here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def products_in(precision: str, device: str) -> AbstractContextManager[Any]:
    """A context in which products are computed in "float32" (unchanged) or in "bfloat16"."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=getattr(torch, precision))


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype that autocast sets for products; None: unchanged."""
    if not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def full(x: Tensor) -> Tensor:
    """The same numbers, converted to float32 if in half precision."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def in_full(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Apply a function with a custom backward pass in float32, whatever autocast's dtype."""
    device = next(x.device for x in arguments if isinstance(x, Tensor))
    if autocast_dtype(device) is None:
        return function.apply(*arguments)
    with torch.autocast(device.type, enabled=False):
        converted = (
            full(x) if isinstance(x, Tensor) and x.is_floating_point() else x for x in arguments
        )
        return function.apply(*converted)
