"""Shared by recurrences that read their state under a mask, step by step.

torch's fused kernels cannot mask the state. With a mask, a layer is

    a_t = (m x_t) W_ih' + b + (m' h_{t-1}) W_hh',    h_t = what its gates make of a_t

and separate masks per gate cut a and the weights into as many shares. Once d a is known for every
step, each weight's gradient is one product over the whole window.

Shape suffixes: I units read, D a layer's gates times its units, S shares of the gates (1: all
gates read alike); others as in `flow.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ablate.lm.model.fast.precision import in_full, plainly
from ablate.lm.model.fast.product import product, product_back, product_over
from ablate.lm.model.native.library import usable


def by_kernel(
    function: type[torch.autograd.Function], plain: Callable[..., Any], *arguments: Any
) -> Any:
    """`function`, whose passes are kernels, where they can take the arguments; else `plain`, which
    autograd differentiates. Both in float32, whatever autocast's dtype."""

    def chosen(*given: Any) -> Any:
        if usable(*(x for x in given if isinstance(x, Tensor))):
            return in_full(function, *given)
        return plain(*given)

    return plainly(chosen, *arguments)


class MaskedProduct:
    """(m x) W' and its gradients, without autograd."""

    def __init__(self, weight_DI: Tensor, mask_SBI: Tensor | None) -> None:
        self.masks = (None,) if mask_SBI is None else mask_SBI.unbind(0)
        self.weights = weight_DI.chunk(len(self.masks))

    def window(self, x_TBI: Tensor, bias_D: Tensor) -> Tensor:
        """All steps at once, with the bias, in a new tensor, [T, B, D]."""
        reads, biases = self._reads(x_TBI), bias_D.chunk(len(self.masks))
        shares = zip(reads, self.weights, biases, strict=True)
        a_ND = joined([product(read, w, bias) for read, w, bias in shares], -1)
        return a_ND.unflatten(0, x_TBI.shape[:2])

    def window_back(self, da_TBD: Tensor) -> Tensor:
        """The gradient of the window's input."""
        shares = zip(self._shares(da_TBD), self.weights, self.masks, strict=True)
        steps = da_TBD.shape[:2]
        backs = ((product_back(da.flatten(0, 1), w).unflatten(0, steps), m) for da, w, m in shares)
        parts = [masked(back, mask) for back, mask in backs]
        return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)

    def weight_back(self, da_TBD: Tensor, x_TBI: Tensor) -> Tensor:
        """The gradient of W."""
        shares = zip(self._shares(da_TBD), self._reads(x_TBI), strict=True)
        return joined([product_over(da.flatten(0, 1), read) for da, read in shares], 0)

    def _shares(self, a: Tensor) -> tuple[Tensor, ...]:
        return a.chunk(len(self.masks), -1)

    def _reads(self, x_TBI: Tensor) -> list[Tensor]:
        return [masked(x_TBI, mask).flatten(0, 1) for mask in self.masks]


def plain_product(x_BI: Tensor, weight_DI: Tensor, mask_SBI: Tensor | None) -> Tensor:
    """(m x) W' for one step, by autograd."""
    if mask_SBI is None or len(mask_SBI) == 1:  # not cut: each piece's gradient would be a copy
        return F.linear(x_BI if mask_SBI is None else x_BI * mask_SBI[0], weight_DI)
    shares = zip(mask_SBI, weight_DI.chunk(len(mask_SBI)), strict=True)
    return torch.cat([F.linear(x_BI * mask, weight) for mask, weight in shares], -1)


def masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """x under a mask, if there is one."""
    return x if mask is None else x * mask


def joined(parts: list[Tensor], dim: int) -> Tensor:
    """The shares' results, side by side."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)
