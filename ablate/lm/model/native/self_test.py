"""The first run of a new library, in a process of its own:

    python -m ablate.lm.model.native.self_test FILE

compares some of its kernels with torch. A library that crashes or computes something else ends this
process with a status other than 0, and is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ablate.lm.model.fast.lstm_steps import lstm_steps, plain_steps
from ablate.lm.model.fast.scan import scan, scan_plain
from ablate.lm.model.native import library
from ablate.lm.model.native.product import multiply
from ablate.lm.model.native.softmax import exponentials_, half_slopes_

STEPS, ROWS, UNITS = 5, 9, 70  # no multiples of the widths of vectors


def check(file: Path) -> None:
    """Raise an `AssertionError` if a kernel of this library computes something else than torch."""
    opened = library.opened(file)
    # All that calls a kernel asks for the library so, and finds the new one.
    library.load_library = lambda: (opened, "on trial")  # type: ignore[assignment]
    torch.manual_seed(1)
    for compare in (_product, _softmax, _half, _lstm, _scan):
        compare()


def _product() -> None:
    for inner, columns in ((UNITS, ROWS), (3, 33), (300, 257)):
        a, b, bias = torch.randn(ROWS, inner), torch.randn(inner, columns), torch.randn(columns)
        _close(multiply(a, b, bias), a @ b + bias)


def _softmax() -> None:
    logits, targets = torch.randn(ROWS, UNITS), torch.randint(UNITS, (ROWS,))
    wanted = (logits - logits.amax(1, keepdim=True)).exp()
    sums, _ = exponentials_(logits, targets)
    _close(logits, wanted)
    _close(sums, wanted.sum(1, keepdim=True))


def _half() -> None:
    logits, bias = torch.randn(ROWS, UNITS).bfloat16(), torch.randn(UNITS)
    targets = torch.randint(UNITS, (ROWS,))
    biased = logits.float() + bias
    wanted = (biased - biased.amax(1, keepdim=True)).exp()
    sums, _ = half_slopes_(logits, bias, targets)
    _close(sums, wanted.sum(1, keepdim=True))
    wanted.scatter_add_(1, targets[:, None], -sums)
    torch.testing.assert_close(logits.float(), wanted, rtol=1e-2, atol=1e-3)  # bfloat16 has 8 bits


def _lstm() -> None:
    shapes = ((STEPS, ROWS, UNITS), (ROWS, UNITS), (ROWS, UNITS), (4 * UNITS, UNITS))
    tensors = [torch.randn(shape) / 4 for shape in (*shapes, shapes[-1], (4 * UNITS,))]
    _same_gradients(
        lambda *given: lstm_steps(*given)[0],
        lambda *given: plain_steps(*given)[0],
        tensors,
    )


def _scan() -> None:
    for dtype in (torch.float32, torch.complex64):
        for steps in (1, STEPS):  # one factor for all of them, or one each
            shapes = ((steps, ROWS, UNITS), (STEPS, ROWS, UNITS), (ROWS, UNITS))
            tensors = [torch.randn(shape, dtype=dtype) for shape in shapes]
            _same_gradients(scan, scan_plain, tensors)


def _same_gradients(
    one: Callable[..., Tensor], other: Callable[..., Tensor], tensors: list[Tensor]
) -> None:
    results = []
    for compute in (one, other):
        given = [tensor.clone().requires_grad_() for tensor in tensors]
        out = compute(*given)
        results.append([out, *torch.autograd.grad(out.abs().square().sum(), given)])
    for ours, wanted in zip(*results, strict=True):
        _close(ours, wanted)


def _close(ours: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(ours, wanted, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    check(Path(sys.argv[1]))
