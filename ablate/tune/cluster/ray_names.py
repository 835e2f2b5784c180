"""The names that `ray_private` uses without a promise of Ray's, and why (Ray 2.60).

Another Ray may not have them all. Without a name of `KEEPS` a study could lose what it has learned,
so it does not start. Without one of `FASTER` it starts, and runs as Ray alone would run it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from typing import Any

import ray

from ablate.errors import MissingDependency

TESTED = "2.60.0"
_NODE, _SERVICES = "ray._private.node:Node", "ray._private.services"
_WORKER, _TUNE = "ray._private.worker", "ray.tune.execution.tune_controller:TuneController"
_ACTORS = "ray.air.execution._internal.actor_manager:RayActorManager"
# Module and name, with a function's parameters but `self`, and why it is needed.
KEEPS = {
    f"{_NODE}.all_processes": "Ray says nothing of a dead raylet, so `watch` looks at it",
    f"{_NODE}.gcs_address": "likewise, whether the GCS answers",
    f"{_NODE}.raylet_socket_name": "likewise, whether the raylet answers",
    f"{_SERVICES}:ProcessInfo.process": "likewise",
    f"{_SERVICES}:resolve_ip_for_localhost(host)": "it replaces loopback by the host's own address",
    f"{_SERVICES}:ConsolePopen": "signals to the driver's group must not reach the node",
    f"{_WORKER}:_global_node": "the node that this process has started or joined",
    f"{_WORKER}:init._node_ip_address": "no other host reaches the services of a local node",
    f"{_WORKER}:init._temp_dir": "the node's folder is deleted at the end",
    f"{_TUNE}.checkpoint(force, wait)": "all state is in the store",
    f"{_TUNE}._mark_trial_to_checkpoint(trial)": "likewise",
    f"{_TUNE}.cleanup()": "it waits for actors that still start",
    f"{_TUNE}.is_finished()": "the driver steps the loop, and ends it",
    f"{_TUNE}.step()": "likewise",
    f"{_TUNE}._process_trial_failure(trial, exception)": "its count of deaths dies with the driver",
    f"{_TUNE}._actor_failed(tracked_actor, exception)": "it waits forever for a dead actor's reset",
    f"{_TUNE}._trial_task_failure(trial, exception)": "it counts a death in a reset twice",
    f"{_TUNE}._actor_manager": "`Actors` takes its place",
    f"{_TUNE}._actor_to_trial": "whose actor failed",
    f"{_TUNE}._trial_to_actor": "whether a trial has an actor",
    f"{_TUNE}._resetting_trials": "which actors are getting another trial",
    f"{_ACTORS}.cleanup()": "it kills the actors",
    f"{_ACTORS}._actor_task_failed(tracked_actor_task, exception)": "it raises if memory is out",
    "ray.tune.experiment.trial:_TemporaryTrialState.ray_actor": "it saves the trial at the end",
}
FASTER = {
    f"{_NODE}.start_api_server": "nobody reads the dashboard",
    f"{_NODE}.start_log_monitor": "nor what the log monitor prints",
    f"{_NODE}.start_monitor": "a local node does not grow: it needs no autoscaler",
    f"{_SERVICES}:RAYLET_EXECUTABLE": "the process whose agents are left out",
    "ray._raylet:persist_port": "a raylet waits for the ports of its agents",
    f"{_WORKER}:print_to_stdstream": "no option silences it",
    f"{_TUNE}._maybe_reuse_cached_actor(trial)": "with short trials, no second actor starts",
    f"{_TUNE}._class_cache": "its actors cannot use the workers that have started with the node",
    f"{_TUNE}._actor_cache": "it keeps one actor, and all should stay warm",
    "ray.tune.utils.object_cache:_ObjectCache.increase_max(key, by)": "as `_actor_cache`",
}


def check() -> str | None:
    """Raise `MissingDependency` if this Ray could lose something; return a note if it is slower."""
    if lost := moved(KEEPS):
        raise MissingDependency(
            f"Ray {ray.__version__} has no {_counted(lost)}: on it, a study could lose what its "
            "trials have learned. Install one that was tested "
            f"(pip install 'ray[tune]=={TESTED}'), or run without Ray: --local."
        )
    if slower := moved(FASTER):
        return (
            f"Ray {ray.__version__} has no {_counted(slower)}: the study runs, and starts some "
            "seconds later than on one that was tested"
        )
    return None


def _counted(names: list[str]) -> str:
    more = f" (nor {len(names) - 1} more private names)" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def moved(names: Iterable[str]) -> list[str]:
    """Return the names that this Ray does not have where we use them."""
    return [name.partition(":")[2] for name in names if not _is_there(name)]


def _is_there(private: str) -> bool:
    name, is_called, parameters = private.rstrip(")").partition("(")
    module, _, path = name.partition(":")
    *above, last = path.split(".")
    try:
        owner: Any = importlib.import_module(module)
        for part in above:
            owner = getattr(owner, part)
    except (ImportError, AttributeError):
        return False
    if not is_called:
        return hasattr(owner, last) or _sets(owner, last)
    found = getattr(owner, last, None)
    return callable(found) and _parameters(found) == parameters


def _parameters(function: Any) -> str:
    return ", ".join(name for name in inspect.signature(function).parameters if name != "self")


def _sets(owner: Any, name: str) -> bool:
    """Whether a class gives its objects the attribute, or a function has the option."""
    if inspect.ismodule(owner):
        return False
    code = inspect.unwrap(owner.__init__ if inspect.isclass(owner) else owner).__code__
    return name in (*code.co_names, *code.co_consts)
