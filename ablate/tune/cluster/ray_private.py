"""All that `ablate` does with names of Ray's that Ray does not promise; `ray_names` lists them.

The methods of Tune's control loop are fixed where it loses actors, trials or the driver: each says
what goes wrong without it, and `tests/tune/test_cluster.py` shows it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ray
from ray._private import node, services, worker
from ray.air.execution import PlacementGroupResourceManager
from ray.air.execution._internal import RayActorManager
from ray.exceptions import RayActorError, RayTaskError
from ray.tune import PlacementGroupFactory
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial as TuneTrial

from ablate.tune.cluster.ray_names import FASTER, moved

NO_AGENT = Path(__file__).with_name("no_agent.py")
FROM_TEMPLATE = Path(__file__).with_name("from_template.py")
WORKER: str = "python_worker_command"  # these and the next two are options of a raylet
AGENTS: tuple[str, ...] = ("dashboard_agent_command", "runtime_env_agent_command")
AGENT_PORTS = (
    "dashboard_agent_listen_port",
    "metrics_agent_port",
    "metrics_export_port",
    "runtime_env_agent_port",
)
PATIENCE_SECONDS = 30.0  # to wait for a starting actor while another one is free


def own_processes() -> dict[str, list[Any]]:
    """The processes of Ray's that this one has started, by name."""
    # Copied first: the node may be starting or stopping its processes now.
    started = list(worker._global_node.all_processes.items()) if worker._global_node else []
    return {name: [info.process for info in list(infos)] for name, infos in started}


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
def own_node(start_process: Callable[..., Any], template: str | None = None) -> Iterator[None]:
    """Start nodes on loopback, their processes by `start_process`; if this Ray allows it, bare."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_replaced(services, "resolve_ip_for_localhost", lambda host: host))
        if not moved(FASTER):
            stack.enter_context(_bare_node())
            start_process = _bare_raylet(start_process, template)
        if sys.platform != "win32":
            stack.enter_context(_replaced(services, "ConsolePopen", start_process))
        yield


@contextlib.contextmanager
def _bare_node() -> Iterator[None]:
    """Start nodes without any Python process of Ray's but their workers.

    Left out are dashboard, log monitor, autoscaler and the raylet's two agents. They take most of a
    node's start time, and more beside another node, as one agent waits for a port that both want.
    """
    with contextlib.ExitStack() as stack:
        for name in ("start_api_server", "start_log_monitor", "start_monitor"):
            stack.enter_context(_replaced(node.Node, name, _nothing))
        yield


def _bare_raylet(start_process: Callable[..., Any], template: str | None) -> Callable[..., Any]:
    """Start a node's processes, of which the raylet forks its workers from a template's socket."""

    def start(command: list[str], **options: Any) -> Any:
        is_raylet = command[0] == services.RAYLET_EXECUTABLE
        return start_process(_bare(command, template) if is_raylet else command, **options)

    return start


def _bare(raylet: list[str], template: str | None) -> list[str]:
    """A raylet's command, with a stand-in for each agent and, from a template, for each worker."""
    options = dict(part.removeprefix("--").split("=", 1) for part in raylet if "=" in part)
    stand_ins = {name: _python(NO_AGENT) for name in AGENTS}
    if template is not None:
        stand_ins[WORKER] = f"{_python(FROM_TEMPLATE, template)} {options.get(WORKER)}"
    if not {"session_dir", "node_id", *stand_ins} <= options.keys():
        return raylet  # another Ray's, whose options have other names
    from ray._raylet import persist_port  # pyright: ignore[reportAttributeAccessIssue]

    for name in AGENT_PORTS:
        persist_port(options["session_dir"], options["node_id"], name, -1)
    names = [part.removeprefix("--").partition("=")[0] for part in raylet]
    return [
        f"--{name}={stand_ins[name]}" if name in stand_ins else part
        for name, part in zip(names, raylet, strict=True)
    ]


def _python(*arguments: str | Path) -> str:
    """A command as a raylet reads it. Without `site`, Python starts in 20 ms."""
    return subprocess.list2cmdline([sys.executable, "-S", "-E", *map(str, arguments)])


def _on_bare_node() -> bool:
    raylets = own_processes().get("raylet", [])
    return any(str(NO_AGENT) in part for raylet in raylets for part in raylet.args)


def raylet_silenced() -> contextlib.AbstractContextManager[None]:
    """Inside the block, nothing is printed of what the raylet says."""
    if moved(FASTER):
        return contextlib.nullcontext()
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


class Actors(RayActorManager):
    """Tune's actors; one that runs out of memory does not take the driver with it."""

    def _actor_task_failed(self, tracked_actor_task: Any, exception: Exception) -> None:
        if not isinstance(exception, RayActorError | RayTaskError):
            exception = RayActorError(error_msg=str(exception))  # Tune raises any other error
        super()._actor_task_failed(tracked_actor_task, exception)


class PlainActors:
    """Actor classes for a bare node, which has no agent to prepare a runtime environment.

    Tune asks for one, of variables that all processes of such a node have anyway. It also keeps
    actors from the workers that a node starts with.
    """

    def __init__(self) -> None:
        self.classes: dict[type, Any] = {}

    def get(self, trainable: type) -> Any:
        if trainable not in self.classes:
            self.classes[trainable] = ray.remote(trainable)
        return self.classes[trainable]


class Controller(TuneController):
    """Tune's control loop, without its records and with actors that are reused."""

    def __init__(self, drive: Any, resources: PlacementGroupFactory, **options: Any) -> None:
        """`drive` is a `roles.Drive`, whose file imports this one."""
        super().__init__(reuse_actors=True, scheduler=drive, **options)
        if _on_bare_node():
            self._class_cache: Any = PlainActors()
        self._actor_manager = Actors(resource_manager=PlacementGroupResourceManager())
        self._drive = drive
        self._refused: dict[Any, float] = {}  # starting actor -> when its trial was first refused
        if not moved(FASTER):  # keep every actor when several trials end before others can start
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
