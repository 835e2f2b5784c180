"""One worker: runs one trial at a time in this process, a slice at a time.

`local.py` drives one directly, `cluster/actor.py` one in each Ray actor. What goes in and out is
plain data, and every result is in the store before `advance` returns.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from ablate.config.identity import Trial
from ablate.data.travel import receive
from ablate.errors import StoreError
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from ablate.tune.cluster.parcel import unpacked

SLICE_SECONDS = 2.0


class Worker:
    """Starts a trial, advances it until it is done, saves it on request."""

    def __init__(self) -> None:
        self._run: TrialRun | None = None

    def begin(self, order: Mapping[str, Any]) -> None:
        """Start a trial, or resume it from its last checkpoint: {"trial", "store", "data"}.

        An order from another host also has {"study", "corpus", "modules"}.
        """
        trial, store = Trial.from_plain(order["trial"]), Store(order["store"])
        if "study" in order:
            _check_store(store, order["study"])
        data = receive(order["corpus"], store) if "corpus" in order else order["data"]
        self._run = TrialRun(trial, store, data, unpacked(order.get("modules", {})))

    def advance(self) -> dict[str, Any]:
        """Run to the end of the epoch or of the slice: {"done", "epoch": metrics or None}."""
        if self._run is None:
            return {"done": True, "epoch": None}
        progress = self._run.advance(SLICE_SECONDS)
        return {"done": progress.done, "epoch": progress.epoch}

    def save(self) -> None:
        """Write a checkpoint of the running trial now."""
        if self._run is not None:
            self._run.save()


def _check_store(store: Store, study: str) -> None:
    """Check that this host sees the driver's store: a path may be another folder here, or none."""
    if not store.exists(f"studies/{study}/study.json"):
        raise StoreError(
            f"the host {socket.gethostname()} does not see the store {store.uri}. Use --store to "
            "choose one that all hosts reach: s3://BUCKET/FOLDER, or a folder that all mount."
        )
