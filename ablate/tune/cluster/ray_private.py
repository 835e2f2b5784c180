"""All that `ablate` uses of Ray without a promise of Ray's: each name, and why (Ray 2.60).

A new Ray may move any of them. `tests/tune/test_ray_private.py` names those that are not where
this file expects them, and finds those that another file uses. pyproject.toml allows no Ray that
these names were not tested with.

The methods of Tune's control loop are fixed where it loses actors, trials or the driver: each says
what goes wrong without it, and `tests/tune/test_cluster.py` shows it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ray._private import node, services, worker
from ray.air.execution import PlacementGroupResourceManager
from ray.air.execution._internal import RayActorManager
from ray.exceptions import RayActorError, RayTaskError
from ray.tune import PlacementGroupFactory
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial as TuneTrial

PATIENCE_SECONDS = 30.0  # to wait for a starting actor while another one is free


@dataclass(frozen=True)
class Private:
    """A name of Ray's: where it is, why it is needed, and how it is called."""

    name: str  # module:name, or module:Class.name
    why: str
    parameters: str | None = None  # of a function, without its `self`; None: no function


_NODE, _SERVICES, _WORKER = (f"ray._private.{name}" for name in ("node", "services", "worker"))
_LOOP = "ray.tune.execution.tune_controller:TuneController"
_ACTORS = "ray.air.execution._internal.actor_manager:RayActorManager"
PRIVATE = (
    Private(
        f"{_NODE}:Node.start_api_server",
        "the dashboard is not used, and takes a second to start",
        "include_dashboard raise_on_failure",
    ),
    Private(f"{_NODE}:Node.start_log_monitor", "nor is the log monitor", ""),
    Private(f"{_NODE}:Node.start_monitor", "nor the autoscaler", ""),
    Private(f"{_NODE}:Node.all_processes", "Ray says nothing of a dead raylet: `watch` looks"),
    Private(f"{_SERVICES}:ProcessInfo.process", "likewise"),
    Private(f"{_NODE}:Node.gcs_address", "to ask whether the GCS answers"),
    Private(f"{_NODE}:Node.raylet_socket_name", "to ask whether the raylet answers"),
    Private(
        f"{_SERVICES}:resolve_ip_for_localhost",
        "it would replace a loopback address by one that other hosts reach",
        "host",
    ),
    Private(f"{_SERVICES}:ConsolePopen", "a signal to the driver's group must not reach the node"),
    Private(
        f"{_WORKER}:print_to_stdstream",
        "it prints what the raylet says of dead workers, whatever `log_to_driver` is",
        "data ignore_prefix",
    ),
    Private(f"{_WORKER}:_global_node", "the node that this process has started or joined"),
    Private(f"{_WORKER}:init._node_ip_address", "the services of a local node are on loopback"),
    Private(f"{_WORKER}:init._temp_dir", "the node's folder is deleted at the end"),
    Private(f"{_LOOP}.checkpoint", "all state is in the store", "force wait"),
    Private(f"{_LOOP}.cleanup", "it would wait for actors that still start", ""),
    Private(f"{_LOOP}.is_finished", "the driver steps the loop, and stops it", ""),
    Private(f"{_LOOP}.step", "likewise", ""),
    Private(f"{_LOOP}._mark_trial_to_checkpoint", "as `checkpoint`", "trial"),
    Private(f"{_LOOP}._maybe_reuse_cached_actor", "no second actor would start", "trial"),
    Private(f"{_LOOP}._process_trial_failure", "the schedule counts deaths", "trial exception"),
    Private(f"{_LOOP}._actor_failed", "a reset is waited for forever", "tracked_actor exception"),
    Private(f"{_LOOP}._trial_task_failure", "a death is counted twice", "trial exception"),
    Private(f"{_LOOP}._actor_manager", "to put in `Actors`, and to kill them at the end"),
    Private(f"{_LOOP}._actor_cache", "it keeps one actor, and all should stay warm"),
    Private(f"{_LOOP}._actor_to_trial", "whose actor failed"),
    Private(f"{_LOOP}._trial_to_actor", "whether a trial's own actor is starting"),
    Private(f"{_LOOP}._resetting_trials", "which actors get another trial now"),
    Private(f"{_ACTORS}.cleanup", "kills the actors", ""),
    Private(
        f"{_ACTORS}._actor_task_failed",
        "an actor without memory would take the driver with it",
        "tracked_actor_task exception",
    ),
    Private("ray.tune.utils.object_cache:_ObjectCache.increase_max", "as `_actor_cache`", "key by"),
    Private(
        "ray.tune.experiment.trial:_TemporaryTrialState.ray_actor",
        "`Drive` asks a running trial's actor to save, when the study stops",
    ),
)


def own_processes() -> list[tuple[str, Any]]:
    """The processes of Ray's that this one has started, with their names."""
    # Copied first: the node may be starting or stopping its processes now.
    started = list(worker._global_node.all_processes.items()) if worker._global_node else []
    return [(name, info.process) for name, infos in started for info in list(infos)]


def own_addresses() -> tuple[str, str] | None:
    """The raylet's socket and the GCS's address that this process uses; None without Ray."""
    own: Any = worker._global_node
    return own and (own.raylet_socket_name, own.gcs_address)


def actor_of(trial: TuneTrial) -> Any:
    """The actor that runs the trial."""
    return trial.temporary_state.ray_actor


def init_options(address: str, folder: str | None) -> dict[str, Any]:
    """The options of `ray.init` for a local node's address and folder."""
    return {"_node_ip_address": address, "_temp_dir": folder}


@contextlib.contextmanager
def bare_node(start_process: Callable[..., Any]) -> Iterator[None]:
    """Start nodes by `start_process`, without dashboard, log monitor and autoscaler.

    These are three of a node's five Python processes and half of its start time.
    """
    with contextlib.ExitStack() as stack:
        for name in ("start_api_server", "start_log_monitor", "start_monitor"):
            stack.enter_context(_replaced(node.Node, name, _nothing))
        stack.enter_context(_replaced(services, "resolve_ip_for_localhost", lambda host: host))
        if sys.platform != "win32":
            stack.enter_context(_replaced(services, "ConsolePopen", start_process))
        yield


def raylet_silenced() -> contextlib.AbstractContextManager[None]:
    """Inside the block, nothing is printed of what the raylet says."""
    return _replaced(worker, "print_to_stdstream", _nothing)


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _nothing(*args: Any, **options: Any) -> None:
    pass


class Drive(Protocol):
    """What the control loop tells of deaths, and asks (`roles.Drive`)."""

    workers: int

    def died(self, trial: TuneTrial, error: Exception) -> None: ...
    def handled_death(self, trial: TuneTrial, error: Exception) -> None: ...


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
