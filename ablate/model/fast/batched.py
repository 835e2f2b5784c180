"""Whether a model is computed as one of a batch of models (`ablate/trial/training/together.py`).

`torch.func.vmap` has no form of our kernels, nor of functions with a backward pass of their own:
inside, each gives way to the same formula by plain autograd.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_batched = ContextVar("batched", default=False)


def is_batched() -> bool:
    """Return whether the model that is computed is one of a batch."""
    return _batched.get()


@contextmanager
def batched() -> Iterator[None]:
    """Inside, models are computed as one batch."""
    token = _batched.set(True)
    try:
        yield
    finally:
        _batched.reset(token)
