"""One worker: runs one trial at a time in this process, a slice at a time.

`local.py` drives one directly, `cluster.py` one in each Ray actor. What goes in and out is plain
data, and everything that was learnt is in the store before `advance` returns.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from ablate.data.travel import receive
from ablate.errors import StoreError
from ablate.identity import Trial
from ablate.store import Store
from ablate.trial import TrialRun
from ablate.tune.parcel import unpacked

SLICE_SECONDS = 2.0


class Worker:
    """Begin a trial, advance it until it is done, save it when asked to."""

    def __init__(self) -> None:
        self._run: TrialRun | None = None

    def begin(self, order: Mapping[str, Any]) -> None:
        """Take up a trial, where its last checkpoint left it: {"trial", "store", "data"}.

        From another host also {"study", "corpus", "modules"}: what is brought along.
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
    """A folder of the driver's host may be another folder here, or none."""
    if not store.exists(f"studies/{study}/study.json"):
        raise StoreError(
            f"the host {socket.gethostname()} does not see the store {store.uri}. Name one that "
            "all hosts reach with --store: s3://BUCKET/FOLDER, or a folder that all of them mount."
        )
