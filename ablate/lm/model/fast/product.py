"""Products with the large matrix of an output layer, by whichever library is fast here.

torch's own product uses MKL, which is the fastest on Intel's processors, except for narrow
matrices, and takes a slow path on some of AMD's. Otherwise our kernel computes what it can, and
oneDNN or torch the rest. The choice depends only on the processor and the shapes, so a machine
always computes the same bits.

Factors in half precision are multiplied as they are; results and sums are float32.
"""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor

from ablate.lm.model.native.library import library, usable
from ablate.lm.model.native.product import FEWEST_ROWS, PANEL, add_product_, multiply
from ablate.store.files import cpuinfo

NARROW_FOR_MKL = 128  # with fewer columns our kernel is as fast on Intel's processors
NARROW = 320  # with fewer columns oneDNN is faster, and its result is transposed
ALIGNED = 16  # numbers per cache line; products into unaligned rows can take twice the time
BLOCK = 128  # rows
MANY_ROWS = 128  # with fewer rows, packing the matrix for the kernel costs more than it saves


def multipliers() -> str:
    """What multiplies large matrices in float32 on this processor, in words."""
    theirs = "MKL" if prefers_mkl() else "oneDNN" if prefers_onednn() else "torch"
    if library() is None:
        return theirs
    if prefers_mkl():
        return f"our kernel, and MKL from a width of {NARROW_FOR_MKL} on"
    return f"our kernel, and {theirs} what it leaves"


def product(
    x_MK: Tensor,
    weight_NK: Tensor,
    bias_N: Tensor | None = None,
    out_MN: Tensor | None = None,
) -> Tensor:
    """x W' + b, [M, N], without gradients; in the buffer `out_MN` if that is given, the kernels can
    be used, and there are enough rows. Else the buffer is left as it is."""
    enough = out_MN is not None and len(x_MK) >= FEWEST_ROWS
    if enough and usable(x_MK, weight_NK, bias_N, out_MN):
        if _by_mkl(x_MK.shape[1], x_MK):
            return _by_torch(x_MK, weight_NK, bias_N, out_MN)
        return multiply(x_MK, weight_NK.t(), bias_N, out_MN)
    if weight_NK.dtype.itemsize == 2:
        result_MN = half_product(x_MK, weight_NK).float()
        return result_MN if bias_N is None else result_MN.add_(bias_N)
    if _by_onednn(x_MK):
        arguments = (x_MK.contiguous(), weight_NK, bias_N, "none", [], "")
        return torch.ops.mkldnn._linear_pointwise(*arguments)
    return _by_torch(x_MK, weight_NK, bias_N, None)


def _by_torch(
    x_MK: Tensor, weight_NK: Tensor, bias_N: Tensor | None, out_MN: Tensor | None
) -> Tensor:
    if bias_N is None:
        return torch.mm(x_MK, weight_NK.t(), out=out_MN)
    return torch.addmm(bias_N, x_MK, weight_NK.t(), out=out_MN)


def half_product(x_MK: Tensor, weight_NK: Tensor, out_MN: Tensor | None = None) -> Tensor:
    """x W', [M, N], in the half precision of W; in the buffer if given."""
    return torch.mm(x_MK.to(weight_NK.dtype), weight_NK.t(), out=out_MN)


def product_back(slope_KV: Tensor, weight_VE: Tensor) -> Tensor:
    """slope W, [K, E]. For wide matrices oneDNN would copy the matrix first."""
    if len(slope_KV) >= MANY_ROWS and _by_kernel(weight_VE.shape[1], slope_KV, weight_VE):
        return multiply(slope_KV, weight_VE)
    if weight_VE.shape[1] < NARROW or weight_VE.dtype.itemsize == 2:
        return product(slope_KV, weight_VE.t())
    return torch.mm(slope_KV, weight_VE)


def product_over(slope_NV: Tensor, read_NE: Tensor) -> Tensor:
    """slope' read, [V, E]: the gradient of the matrix that maps `read`, summed over N rows."""
    if len(slope_NV) >= FEWEST_ROWS and _by_kernel(read_NE.shape[1], slope_NV, read_NE):
        return multiply(slope_NV.t(), read_NE)
    return product(slope_NV.t(), read_NE.t())


def summed_outer(slope_TBM: Tensor, read_TBN: Tensor) -> Tensor:
    """The gradient of the matrix that maps `read` over a window, [M, N]."""
    return product_over(slope_TBM.flatten(0, 1), read_TBN.flatten(0, 1))


class SumOfProducts:
    """A matrix [V, E] to which products [K, V]' [K, E] are added. Without oneDNN a narrow one can
    have one more column, for the weighted sum of the rows over V; so can one whose products have
    factors in half precision. On a GPU that column comes with as many of zeros as align the rows:
    tensor cores are slow with rows that begin between two multiples of 16 bytes."""

    def __init__(self, like_VE: Tensor, *, sums: bool = False, half: bool = False) -> None:
        self._shape = num_words, width = like_VE.shape
        self._native = not half and width < NARROW and _by_kernel(width, like_VE)
        widens = self._native or (width < NARROW and _by_mkl(width, like_VE))
        self.has_sums = sums and (half or (widens and width % PANEL != 0))
        self._across = not (half or self._native) and width < NARROW and _by_onednn(like_VE)
        columns = num_words if self._across else -(-(width + self.has_sums) // ALIGNED) * ALIGNED
        rows = width if self._across else num_words
        self._zeros = partial(like_VE.new_zeros, (rows, columns))
        self._fewest = columns if self.has_sums and half and _on_gpu(like_VE) else 0
        self._sum: Tensor | None = None  # None: nothing was added yet

    @property
    def _total(self) -> Tensor:
        if self._sum is None:
            self._sum = self._zeros()
        return self._sum

    def add(self, slope_KV: Tensor, vectors_KE: Tensor, weights_K1: Tensor | None = None) -> None:
        """total += slope' vectors; and the sums += slope' weights, where there are sums."""
        width = self._shape[1]
        if self._across:
            self._total.add_(product(vectors_KE.t(), slope_KV.t()))
        elif slope_KV.dtype.itemsize == 2:
            read_KE = _beside(vectors_KE, weights_K1, self._fewest).to(slope_KV.dtype)
            product_VE = torch.mm(slope_KV.t(), read_KE).float()
            if self._sum is None and product_VE.shape[1] >= width + self.has_sums:
                self._sum = product_VE  # adding to zeros takes three times as long as converting
            else:
                self._total[:, : product_VE.shape[1]].add_(product_VE)
        elif self._native:
            read_KE = _beside(vectors_KE, weights_K1)
            add_product_(self._total[:, : read_KE.shape[1]], slope_KV.t(), read_KE)
        else:
            read_KE = _aligned(_beside(vectors_KE, weights_K1))
            self._total[:, : read_KE.shape[1]].addmm_(slope_KV.t(), read_KE)

    def sums(self) -> Tensor:
        """The sums, [V]: a view, valid until `scaled` is called."""
        return self._total[:, self._shape[1]]

    def add_rows(self, words_U: Tensor, rows_UE: Tensor) -> None:
        """total[words] += rows."""
        total_VE = self._total.t() if self._across else self._total[:, : self._shape[1]]
        total_VE.index_add_(0, words_U, rows_UE)

    def scaled(self, scale: Tensor) -> Tensor:
        """The sum times a number, contiguous; the stored sum is released."""
        total, width = self._total, self._shape[1]
        self._sum = None
        if self._across:
            return total.mul_(scale).t().contiguous()
        return total.mul_(scale) if total.shape[1] == width else _compacted(total, width, scale)


def _beside(vectors_KE: Tensor, weights_K1: Tensor | None, fewest: int = 0) -> Tensor:
    """Both in one matrix, with columns of zeros up to a number."""
    if weights_K1 is None:
        return vectors_KE
    missing = max(0, fewest - vectors_KE.shape[1] - 1)
    zeros = [vectors_KE.new_zeros(len(vectors_KE), missing)] if missing else []
    return torch.cat((vectors_KE, weights_K1, *zeros), 1)


def _compacted(total: Tensor, width: int, scale: Tensor) -> Tensor:
    """The first columns times a number, contiguous in the same memory: rows only move forward."""
    numbers, num_rows = total.view(-1), len(total)
    for first in range(0, num_rows, BLOCK):
        last = min(first + BLOCK, num_rows)
        moved = total[first:last, :width] * scale
        numbers[first * width : last * width].copy_(moved.view(-1))
    return numbers[: num_rows * width].view(num_rows, width)


def _aligned(x_KE: Tensor) -> Tensor:
    """The same rows, each starting at a cache line."""
    num_rows, width = x_KE.shape
    if width % ALIGNED == 0:
        return x_KE
    aligned = x_KE.new_empty(num_rows, -(-width // ALIGNED) * ALIGNED)
    return aligned[:, :width].copy_(x_KE)


def _on_gpu(x: Tensor) -> bool:
    return x.device.type != "cpu"


def _by_kernel(width: int, *tensors: Tensor | None) -> bool:
    return not (width >= NARROW_FOR_MKL and prefers_mkl()) and usable(*tensors)


def _by_mkl(width: int, x: Tensor) -> bool:
    on_cpu = x.dtype == torch.float32 and x.device.type == "cpu"
    return on_cpu and width >= NARROW_FOR_MKL and prefers_mkl()


def _by_onednn(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu" and prefers_onednn()


@cache
def prefers_mkl() -> bool:
    """Return whether this is an Intel processor, with MKL in torch."""
    return "GenuineIntel" in cpuinfo() and torch.backends.mkl.is_available()


@cache
def prefers_onednn() -> bool:
    """Return whether this is an AMD processor, with oneDNN's linear map available in torch."""
    offered = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return "AuthenticAMD" in cpuinfo() and offered and torch.backends.mkldnn.is_available()
