"""The matrix product x W', by whichever library is fast on this processor.

torch's own product goes through a library that takes a slow path on AMD processors, where oneDNN
reaches about twice its rate; on Intel's it is the other way round. The choice depends on the
processor alone, so that a machine always computes the same bits.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from torch import Tensor


def product(x_MK: Tensor, weight_NK: Tensor) -> Tensor:
    """x W', [M, N]; without gradients."""
    if _by_onednn(x_MK):
        arguments = (x_MK.contiguous(), weight_NK, None, "none", [], "")
        return torch.ops.mkldnn._linear_pointwise(*arguments)
    return torch.mm(x_MK, weight_NK.t())


def add_product_(total_MN: Tensor, x_MK: Tensor, weight_NK: Tensor) -> Tensor:
    """total += x W', in place."""
    if _by_onednn(x_MK):
        return total_MN.add_(product(x_MK, weight_NK))
    return total_MN.addmm_(x_MK, weight_NK.t())


def _by_onednn(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu" and prefers_onednn()


@cache
def prefers_onednn() -> bool:
    """Whether this is an AMD processor under a torch that offers oneDNN's linear map."""
    info = Path("/proc/cpuinfo")
    is_amd = info.exists() and "AuthenticAMD" in info.read_text()
    offered = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return is_amd and offered and torch.backends.mkldnn.is_available()
