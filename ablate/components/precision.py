"""Half precision for the matrix products of training, by torch's autocast.

Parameters, states, losses, optimizers and whatever is judged stay float32. A function with a
backward pass of its own runs in float32 too, unless it asks here what autocast asks for.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def products_in(precision: str, device: str) -> AbstractContextManager[Any]:
    """Where products are computed in "float32" (as they come) or in "bfloat16"."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=getattr(torch, precision))


def asked_for(device: torch.device) -> torch.dtype | None:
    """The dtype that autocast asks products to be in; None: as they come."""
    if not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def full(x: Tensor) -> Tensor:
    """The same numbers, in float32 where they were in half precision."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def in_full(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Apply a function that writes its own backward pass: in float32, whatever is asked for."""
    device = next(x.device for x in arguments if isinstance(x, Tensor))
    if asked_for(device) is None:
        return function.apply(*arguments)
    with torch.autocast(device.type, enabled=False):
        found = (
            full(x) if isinstance(x, Tensor) and x.is_floating_point() else x for x in arguments
        )
        return function.apply(*found)
