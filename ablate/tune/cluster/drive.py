"""Run a schedule on Ray Tune: on this machine, or on a cluster at an address."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError
from ray.tune import PlacementGroupFactory, TuneError
from ray.tune.experiment import Experiment

from ablate.errors import TrialError
from ablate.tune.cluster.actor import WarmWorker
from ablate.tune.cluster.controller import Controller
from ablate.tune.cluster.roles import Drive, Feed
from ablate.tune.cluster.session import Fleet, connected, environment, room
from ablate.tune.cluster.sharing import measured_share

if TYPE_CHECKING:
    from ablate.config.identity import Trial
    from ablate.tune.schedule import Schedule

__all__ = ["Fleet", "connected", "run"]


def run(schedule: Schedule, fleet: Fleet, order: Callable[[Trial], Mapping[str, Any]]) -> None:
    """Run the schedule's trials until none is left or it is stopping.

    `order` gives what a worker needs to run a trial, as plain data. "worker" in it is the
    `module:name` of a worker class other than `ablate.tune.worker:Worker`.
    """
    if fleet.tmp is not None:
        Path(fleet.tmp).mkdir(parents=True, exist_ok=True)
    folder = tempfile.TemporaryDirectory(prefix="tune-", dir=fleet.tmp, ignore_cleanup_errors=True)
    with folder as path, connected(fleet):
        if fleet.gpu_shared_by is not None:
            fleet = replace(fleet, gpus_per_trial=_share(fleet.gpu_shared_by))
            schedule.note(f"trials that share a GPU: {round(1 / fleet.gpus_per_trial)} (measured)")
        workers = fleet.workers or room(fleet)
        drive = Drive(schedule, order, workers)
        with environment(_tune_settings(fleet, workers)):
            _control(drive, fleet, path)


def _share(order: Mapping[str, Any]) -> float:
    """The share of a GPU per trial, measured on one of the cluster's that is otherwise idle."""
    return ray.get(ray.remote(num_gpus=1, max_calls=1)(measured_share).remote(dict(order)))


def _control(drive: Drive, fleet: Fleet, path: str) -> None:
    controller = _controller(drive, fleet, path)
    try:
        while not (controller.is_finished() or drive.halted()):
            controller.step()
    except (RayError, TuneError) as error:
        raise drive.failure or TrialError(f"Ray Tune gave up: {error}") from error
    finally:
        controller.cleanup()
    if drive.failure is not None:
        raise drive.failure


def _controller(drive: Drive, fleet: Fleet, folder: str) -> Controller:
    wanted = {"CPU": float(fleet.cpus_per_trial), "GPU": float(fleet.gpus_per_trial)}
    resources = PlacementGroupFactory([{name: num for name, num in wanted.items() if num}])
    experiment = Experiment("tune", WarmWorker, storage_path=folder)
    return Controller(
        drive,
        resources,
        search_alg=Feed(drive, experiment, placement_group_factory=resources),
        storage=experiment.storage,
    )


def _tune_settings(fleet: Fleet, workers: int) -> dict[str, str]:
    return {
        "TUNE_MAX_PENDING_TRIALS_PG": str(workers),  # start all actors at once
        "TUNE_PRINT_ALL_TRIAL_ERRORS": "1" if fleet.verbose else "0",
    }
