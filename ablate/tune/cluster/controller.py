"""Tune's control loop, fixed where it loses actors, trials or the driver (Ray 2.60).

The overridden names are Tune's own. Each method says what goes wrong without it, and
`tests/tune/test_cluster.py` shows it.
"""

from __future__ import annotations

import time
from typing import Any

from ray.air.execution import PlacementGroupResourceManager
from ray.air.execution._internal import RayActorManager
from ray.exceptions import RayActorError, RayTaskError
from ray.tune import PlacementGroupFactory
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial as TuneTrial

from ablate.tune.cluster.roles import Drive

PATIENCE_SECONDS = 30.0  # to wait for a starting actor while another one is free


class Actors(RayActorManager):
    """Tune's actors; one that runs out of memory does not take the driver with it."""

    def _actor_task_failed(self, tracked_actor_task: Any, exception: Exception) -> None:
        if not isinstance(exception, RayActorError | RayTaskError):
            exception = RayActorError(error_msg=str(exception))  # Tune raises any other error
        super()._actor_task_failed(tracked_actor_task, exception)


class Controller(TuneController):
    """Tune's control loop, without its records and with actors that are reused."""

    def __init__(self, drive: Drive, resources: PlacementGroupFactory, **options: Any) -> None:
        super().__init__(reuse_actors=True, scheduler=drive, **options)
        self._actor_manager = Actors(resource_manager=PlacementGroupResourceManager())
        self._drive = drive
        self._refused: dict[Any, float] = {}  # starting actor -> when its trial was first refused
        # Keep every actor when several trials end before others can start.
        self._actor_cache.increase_max(resources, drive.workers)

    def checkpoint(self, force: bool = False, wait: bool = False) -> None:
        """Do nothing: all state is in the study's store."""

    def cleanup(self) -> None:
        """Kill the actors: their state is saved, and Tune would wait for those still starting."""
        self._actor_manager.cleanup()

    def _mark_trial_to_checkpoint(self, trial: TuneTrial) -> None:
        """Do nothing, as above."""

    def _maybe_reuse_cached_actor(self, trial: TuneTrial) -> bool:
        """Let a trial wait a while for its own actor if that is starting.

        Tune would give it a free actor and discard the new one: with short trials no second actor
        would ever start.
        """
        starting = self._trial_to_actor.get(trial)
        if starting is not None and trial not in self._resetting_trials:
            since = self._refused.setdefault(starting, time.monotonic())
            if time.monotonic() - since < PATIENCE_SECONDS:
                return False
        return super()._maybe_reuse_cached_actor(trial)

    def _process_trial_failure(self, trial: TuneTrial, exception: Any) -> None:
        """Let the schedule decide whether to restart: Tune's own count dies with the driver."""
        self._drive.died(trial, exception)
        super()._process_trial_failure(trial, exception)
        self._drive.handled_death(trial, exception)

    def _actor_failed(self, tracked_actor: Any, exception: Exception) -> None:
        trial = self._actor_to_trial.get(tracked_actor)
        self._resetting_trials.discard(trial)  # Tune would wait forever for this reset
        super()._actor_failed(tracked_actor, exception)

    def _trial_task_failure(self, trial: TuneTrial, exception: Exception) -> None:
        """Count an actor that died during a reset only once: Tune counts it twice and gives up."""
        if trial.status == TuneTrial.PENDING and trial not in self._trial_to_actor:
            return
        super()._trial_task_failure(trial, exception)
