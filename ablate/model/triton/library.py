"""Whether Triton's kernels compute, and how they are started.

They are for tensors on a GPU, with ABLATE_TRITON=on and the package `triton` (torch for CUDA brings
it). In every other case torch computes the same. With TRITON_INTERPRET=1 too, Triton's interpreter
runs them on the CPU, step by step in NumPy: that is for tests, and far slower than torch.

`triton` is imported by the kernels' own files only, and those by their callers only when they run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from ablate.model.fast.batched import is_batched

SWITCH = "ABLATE_TRITON"
INTERPRETER = "TRITON_INTERPRET"
YES = ("1", "true", "on", "yes", "y")  # what Triton takes for a yes
REAL = (torch.float32, torch.bfloat16)

_uses = {"kernels": 0, "torch": 0}


def usable(*tensors: Tensor | None, dtypes: Sequence[torch.dtype] = REAL) -> bool:
    """Return whether the kernels take these tensors: of such a type, on a GPU, switched on."""
    present = [tensor for tensor in tensors if tensor is not None]
    devices = {tensor.device.type for tensor in present}
    if is_batched() or not all(tensor.dtype in dtypes for tensor in present):
        return False
    if devices == {"cpu"} and is_on() and is_interpreted():
        return version() is not None
    if devices != {"cuda"}:
        return False
    if is_on() and version() is not None:
        return True
    _uses["torch"] += 1
    return False


def is_on() -> bool:
    """Return whether the user asked for the kernels."""
    return os.environ.get(SWITCH) == "on"


def is_interpreted() -> bool:
    """Return whether kernels run on the CPU, in Triton's interpreter."""
    return os.environ.get(INTERPRETER, "").lower() in YES


@cache
def version() -> str | None:
    """The version of Triton; None where it is not installed."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None


def uses() -> dict[str, int]:
    """How often this process ran a kernel, and how often torch computed what a kernel could."""
    return dict(_uses)


def computed_by(before: dict[str, int]) -> list[str]:
    """What computed the kernels' work on a GPU since `before`, for records."""
    parts = []
    if _uses["kernels"] > before["kernels"]:
        parts.append(f"kernels: triton {version()}")
    if _uses["torch"] > before["torch"]:
        reason = "triton is not installed" if is_on() else f"{SWITCH} is not on"
        parts.append(f"torch: {reason}")
    return parts


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Start a kernel, one program for each cell of the grid, on the device of its first tensor.

    Tensors have to be contiguous: kernels compute addresses from sizes alone.
    """
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    for tensor in tensors:
        if not tensor.is_contiguous():
            raise ValueError(f"a kernel was passed a tensor with strides {tensor.stride()}")
    if 0 in grid:
        return
    _uses["kernels"] += 1
    with torch.cuda.device_of(tensors[0]):  # nothing for a tensor in main memory
        # Said, since its default is about to change: x * y + z is rounded once.
        kernel[grid](*arguments, **constants, enable_fp_fusion=True)
