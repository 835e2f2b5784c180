"""A worker: runs a trial in this process, or seeds of one arm together, a slice at a time.

`local.py` drives one directly, `cluster/actor.py` one in each Ray actor. What goes in and out is
plain data, and every result is in the store before `advance` returns.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from typing import Any

from ablate.config.identity import Trial
from ablate.data.travel import host_folder, receive, receive_files
from ablate.errors import StoreError
from ablate.store.files import allow_group
from ablate.store.store import Store
from ablate.trial.provenance import trust
from ablate.trial.run import Progress, TrialRun
from ablate.trial.seed_runs import SeedRuns
from ablate.tune.cluster.parcel import unpacked

SLICE_SECONDS = 2.0  # a driver that stops waits this long: it is heard between slices


class Worker:
    """Starts trials, or resumes them from their last checkpoints; advances them until they are
    done.

    Its order is {"trials", "store", "data"}, and {"processes"} if several may train a trial
    together; one from another process also has {"path"}, and one from another host {"study",
    "corpus", "modules", "files"}.
    """

    def __init__(self, order: Mapping[str, Any]) -> None:
        trials, store, data, code = opened(order)
        processes = order.get("processes", 1)
        self._runs = SeedRuns(TrialRun(each, store, data, code, processes) for each in trials)

    def advance(self) -> list[dict[str, Any]]:
        """Run to the end of an epoch or of the slice. Of each trial that was worked on: {"trial":
        its id, "done", "epoch": metrics or None, "reached": epochs done, with the share of the one
        under way, "alone": why the seeds are no batch, or None}."""
        advanced = self._runs.advance(SLICE_SECONDS)
        return [self._plain(trial_id, progress) for trial_id, progress in advanced]

    def _plain(self, trial_id: str, progress: Progress) -> dict[str, Any]:
        epoch = progress.epoch and progress.epoch.to_plain()
        found = {"done": progress.done, "epoch": epoch, "reached": progress.reached}
        return {"trial": trial_id, **found, "alone": self._runs.alone}

    def drop(self, trial_id: str) -> None:
        """Stop working on a trial, which the driver has ended."""
        self._runs.drop(trial_id)

    def save(self) -> None:
        """Write checkpoints of the trials now."""
        self._runs.save()


def opened(order: Mapping[str, Any]) -> tuple[list[Trial], Store, str, dict[str, str]]:
    """An order's trials, store, folder of corpora, and paths of the user's files on this host.

    It comes from the driver that the user started, so its code is trusted here.
    """
    allow_group()
    if "path" in order:  # modules are found where the driver finds them
        driver = order["path"]
        sys.path[:] = [*driver, *(folder for folder in sys.path if folder not in driver)]
    trials, store = [Trial.from_plain(each) for each in order["trials"]], Store(order["store"])
    if "study" in order:
        _check_store(store, order["study"])
    parcel = order.get("corpus")
    data = receive(parcel, store) if parcel else order["data"] or host_folder()
    code = unpacked(order.get("modules", {})) | receive_files(order.get("files", {}), store)
    trust.accept(code.get(path, path) for trial in trials for path in trial.modules)
    return trials, store, data, code


def _check_store(store: Store, study: str) -> None:
    """Check that this host sees the driver's store: a path may be another folder here, or none."""
    if not store.exists(f"studies/{study}/study.json"):
        raise StoreError(
            f"the host {socket.gethostname()} does not see the store {store.uri}. Use --store to "
            "choose one that all hosts reach: s3://BUCKET/FOLDER, or a folder that all mount."
        )
