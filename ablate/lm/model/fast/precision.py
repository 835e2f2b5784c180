"""Half precision for the matrix products of training, by torch's autocast.

Parameters, states, losses, optimizers and evaluation stay float32. A function with a custom
backward pass also runs in float32, unless it queries autocast's dtype here and rounds its factors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ablate.store.files import cpuinfo


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


def rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A factor of a product, rounded to `dtype`; kept as float32 if that is multiplied faster."""
    low = x.to(dtype)
    slow = x.device.type == "cpu" and dtype == torch.bfloat16 and not has_fast_bfloat16()
    return low.float() if slow else low


@cache
def has_fast_bfloat16() -> bool:
    """Return whether this machine's processor multiplies bfloat16 faster than float32."""
    return multiplies_bfloat16(cpuinfo())


@cache
def onednn_has_bfloat16() -> bool:
    """Return whether torch's fused LSTM runs in bfloat16 on this processor: it needs AVX-512, and
    raises an error without it."""
    return torch.ops.mkldnn._is_mkldnn_bf16_supported()


def multiplies_bfloat16(processor: str) -> bool:
    """Return whether the processor that Linux describes so multiplies bfloat16 faster than float32.

    Intel's need AMX for that, AMD's only AVX-512. What others do was not measured: torch decides.
    """
    words = set(processor.split())
    if words.isdisjoint({"GenuineIntel", "AuthenticAMD"}):
        return True
    return "amx_bf16" in words or {"AuthenticAMD", "avx512_bf16"} <= words


def full(x: Tensor) -> Tensor:
    """The same numbers, converted to float32 if in half precision."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def in_full(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Apply a function with a custom backward pass in float32, whatever autocast's dtype."""
    if torch.compiler.is_compiling():  # torch.compile calls it as it is: it knows no kernels
        called: Any = torch.compiler.disable(in_full)
        return called(function, *arguments)
    return plainly(function.apply, *arguments)


def plainly(function: Callable[..., Any], *arguments: Any) -> Any:
    """The same for a function that plain autograd differentiates."""
    device = next(x.device for x in arguments if isinstance(x, Tensor))
    if autocast_dtype(device) is None:
        return function(*arguments)
    with torch.autocast(device.type, enabled=False):
        return function(*map(_converted, arguments))


def _converted(argument: Any) -> Any:
    if isinstance(argument, tuple):
        return tuple(map(_converted, argument))
    is_number = isinstance(argument, Tensor) and argument.is_floating_point()
    return full(argument) if is_number else argument
