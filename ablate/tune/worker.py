"""A worker: runs a trial in this process, a slice at a time.

`local.py` drives one directly, `cluster/actor.py` one in each Ray actor. What goes in and out is
plain data, and every result is in the store before `advance` returns.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from typing import Any

from ablate.config.identity import Trial
from ablate.errors import StoreError
from ablate.store.files import allow_group
from ablate.store.store import Store
from ablate.trial.provenance import trust
from ablate.trial.run import TrialRun
from ablate.trial.travel import host_folder, receive, receive_files
from ablate.tune.cluster.parcel import unpacked

SLICE_SECONDS = 2.0  # a driver that stops waits this long: it is heard between slices


class Worker:
    """Starts a trial, or resumes it from its last checkpoint; advances it until it is done.

    Its order is {"trial", "store", "data"}; one from another process also has {"path"}, and one
    from another host {"study", "corpus", "modules", "files"}.
    """

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._run = TrialRun(*opened(order))

    def advance(self) -> dict[str, Any]:
        """Run to the end of the epoch or of the slice: {"done", "epoch": metrics or None,
        "reached": epochs done, with the share of the one under way}."""
        done, run = self._run.advance(SLICE_SECONDS), self._run
        return {"done": done, "epoch": run.epoch and run.epoch.to_plain(), "reached": run.reached}

    def save(self) -> None:
        """Write a checkpoint of the trial now."""
        self._run.save()


def opened(order: Mapping[str, Any]) -> tuple[Trial, Store, str, dict[str, str]]:
    """An order's trial, store, folder of corpora, and paths of the user's files on this host.

    It comes from the driver that the user started, so its code is trusted here.
    """
    allow_group()
    if "path" in order:  # modules are found where the driver finds them
        driver = order["path"]
        sys.path[:] = [*driver, *(folder for folder in sys.path if folder not in driver)]
    trial, store = Trial.from_plain(order["trial"]), Store(order["store"])
    if "study" in order:
        _check_store(store, order["study"])
    parcel = order.get("corpus")
    data = receive(parcel, store) if parcel else order["data"] or host_folder()
    code = unpacked(order.get("modules", {})) | receive_files(order.get("files", {}), store)
    trust.accept(code.get(path, path) for path in trial.modules)
    return trial, store, data, code


def _check_store(store: Store, study: str) -> None:
    """Check that this host sees the driver's store: a path may be another folder here, or none."""
    if not store.exists(f"studies/{study}/study.json"):
        raise StoreError(
            f"the host {socket.gethostname()} does not see the store {store.uri}. Use --store to "
            "choose one that all hosts reach: s3://BUCKET/FOLDER, or a folder that all mount."
        )
