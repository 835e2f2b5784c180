"""How many trials share a GPU, measured on one by the memory that the largest arm's trial uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ablate.errors import TrialError
from ablate.trial.run import load_modules
from ablate.trial.task import Place
from ablate.trial.training.training import Training
from ablate.tune.worker import opened

UPDATES = 3  # the optimizer allocates its memory in the first
USABLE = 0.9  # share of a GPU's memory
CONTEXT = 600e6  # bytes of GPU memory that a process takes before it computes anything
SPARE = 1.15  # windows differ in length, and so does the memory that they need


def share(peak: float, total: float) -> float:
    """The share of a GPU for a trial that needs `peak` of its `total` bytes: 1, 1/2, 1/3, ..."""
    fitting = int(USABLE * total / (SPARE * peak + CONTEXT))
    if fitting < 1:
        raise TrialError(
            f"a trial needs {peak / 1e9:.1f} GB at its peak, and a GPU has {total / 1e9:.1f} GB: "
            "it does not fit. A smaller batch_size, or training.accumulate, needs less."
        )
    return 1 / fitting


def gpu_memory() -> Any:
    """`torch.cuda`, which reports a GPU's memory; the peak is measured from now on."""
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda


def measured_share(order: Mapping[str, Any], memory: Callable[[], Any] = gpu_memory) -> float:
    """The share of a GPU that an order's trial needs, measured by training a few updates."""
    gpu = memory()
    trial, store, data, code = opened(order)
    load_modules(trial.modules, code)
    task = Training(trial, Place(store, data))
    for _ in range(UPDATES):
        task.advance(0)
    return share(gpu.max_memory_reserved(), gpu.mem_get_info()[1])
