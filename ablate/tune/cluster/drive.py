"""Run a schedule on Ray Tune: on this machine, or on a cluster at an address."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError
from ray.tune import PlacementGroupFactory, TuneError
from ray.tune.experiment import Experiment

from ablate.errors import TrialError
from ablate.store.leftovers import owned_folder
from ablate.tune.cluster.actor import WarmWorker
from ablate.tune.cluster.ray_private import Controller
from ablate.tune.cluster.roles import Drive, Feed
from ablate.tune.cluster.session import Fleet, connected, environment, room
from ablate.tune.cluster.watch import RayDied, Watch

if TYPE_CHECKING:
    from ablate.config.identity import Trial
    from ablate.tune.schedule import Schedule

__all__ = ["Fleet", "connected", "run"]
MOST_DEATHS = 3  # of Ray, in a row, before any epoch ends


def run(schedule: Schedule, fleet: Fleet, order: Callable[[Trial], Mapping[str, Any]]) -> None:
    """Run the schedule's trials until none is left or it is stopping.

    `order` gives what a worker needs to run a trial, as plain data. "worker" in it is the
    `module:name` of a worker class other than `ablate.tune.worker:Worker`.

    A Ray that was started here and dies is started again, and its trials resume. That their workers
    died with it is not counted; a Ray that keeps dying before any epoch ends is given up.
    """
    if fleet.tmp is not None:
        Path(fleet.tmp).mkdir(parents=True, exist_ok=True)
    drive, startable, deaths = Drive(schedule, order), not ray.is_initialized(), 0
    while True:
        try:
            return _run_once(drive, fleet)
        except RayDied as death:
            if drive.stopping:
                return drive.raise_failure()
            deaths = 1 if drive.learned else deaths + 1
            if not (startable and death.ours) or deaths > MOST_DEATHS:
                raise TrialError(f"{death}. {fleet.advice}") from death
            schedule.note(f"{death}: starting Ray again")
            drive.put_back(str(death))


def _run_once(drive: Drive, fleet: Fleet) -> None:
    """Run trials until none is left, or until Ray dies."""
    parent = Path(fleet.tmp or tempfile.gettempdir())
    watch = Watch(drive.schedule.note, fleet.advice)
    drive.check_ray = watch.check
    with (
        owned_folder("tune-", parent) as folder,
        watch.on(),
        connected(fleet),
        contextlib.closing(watch),
    ):
        drive.workers = fleet.workers or room(fleet)
        with environment(_tune_settings(fleet, drive.workers)):
            _control(drive, fleet, str(folder), watch)


def _control(drive: Drive, fleet: Fleet, path: str, watch: Watch) -> None:
    controller = _controller(drive, fleet, path)
    try:
        while not (controller.is_finished() or drive.halted()):
            watch.check()
            controller.step()
    except (RayError, TuneError) as error:
        watch.check()  # is this why?
        raise drive.failure or TrialError(f"Ray Tune gave up: {error}") from error
    finally:
        if not watch.has_seen_a_death:  # a call to a dead Ray would block
            controller.cleanup()
    drive.raise_failure()


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
