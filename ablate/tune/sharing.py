"""How many trials share a GPU: measured on one, from the memory of the largest arm's trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ablate.data.travel import receive
from ablate.errors import TrialError
from ablate.identity import Trial
from ablate.store import Store
from ablate.train.loop import Training
from ablate.train.task import Place
from ablate.trial import gpu_memory, load_modules
from ablate.tune.parcel import unpacked

UPDATES = 3  # the optimizer's own memory is there after the first
USABLE = 0.9  # of a GPU's memory
CONTEXT = 600e6  # bytes that a process takes there before it computes anything
SPARE = 1.15  # windows differ in length, and so does what they need


def share(peak: float, total: float) -> float:
    """The share of a GPU for a trial that needs so many of its bytes: 1, 1/2, 1/3, ..."""
    fitting = int(USABLE * total / (SPARE * peak + CONTEXT))
    if fitting < 1:
        raise TrialError(
            f"a trial takes {peak / 1e9:.1f} GB at its peak, and a GPU has {total / 1e9:.1f} GB: "
            "it does not fit. A smaller batch_size, or training.accumulate, needs less."
        )
    return 1 / fitting


def measured_share(order: Mapping[str, Any], memory: Callable[[], Any] | None = None) -> float:
    """Train an order's trial for some updates on a GPU of its own: the share that it needs."""
    gpu = (memory or gpu_memory)()
    trial, store = Trial.from_plain(order["trial"]), Store(order["store"])
    load_modules(trial.modules, unpacked(order.get("modules", {})))
    data = receive(order["corpus"], store) if "corpus" in order else order["data"]
    task = Training(trial, Place(store, data))
    for _ in range(UPDATES):
        task.advance(0)
    return share(gpu.max_memory_reserved(), gpu.mem_get_info()[1])
