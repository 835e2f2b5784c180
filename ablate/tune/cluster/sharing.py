"""How many trials share a GPU, measured on one by the memory that the largest arm's trial uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ablate.config.identity import Trial
from ablate.data.travel import receive
from ablate.errors import TrialError
from ablate.store.store import Store
from ablate.trial.run import gpu_memory, load_modules
from ablate.trial.task import Place
from ablate.trial.training import Training
from ablate.tune.cluster.parcel import unpacked

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


def measured_share(order: Mapping[str, Any], memory: Callable[[], Any] | None = None) -> float:
    """The share of a GPU that an order's trial needs, measured by training a few updates."""
    gpu = (memory or gpu_memory)()
    trial, store = Trial.from_plain(order["trial"]), Store(order["store"])
    load_modules(trial.modules, unpacked(order.get("modules", {})))
    data = receive(order["corpus"], store) if "corpus" in order else order["data"]
    task = Training(trial, Place(store, data))
    for _ in range(UPDATES):
        task.advance(0)
    return share(gpu.max_memory_reserved(), gpu.mem_get_info()[1])
