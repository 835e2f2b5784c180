"""A quiet connection to Ray: the existing one, a cluster at an address, or a new local node."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ray

from ablate.errors import TrialError
from ablate.store.leftovers import owned_folder, temporary_folders
from ablate.tune.cluster import ray_private
from ablate.tune.cluster.template import worker_env
from ablate.tune.cluster.watch import RayDied

LOOPBACK = "127.0.0.1"  # no other host reaches the services of a local node
OBJECT_STORE_BYTES = 80 * 1024**2  # results are small and travel inside messages
CONNECT_SECONDS = 10.0
LONGEST_FOLDER = 30  # Ray makes sockets below it, whose paths the system limits to 107 bytes


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The workers: how many, with what resources, where."""

    workers: int | None = None  # None: as many as the cluster has room for
    cpus_per_trial: float = 1.0
    gpus_per_trial: float = 0.0
    address: str | None = None  # None: RAY_ADDRESS, else a new Ray node on this machine
    verbose: bool = False
    tmp: str | None = None  # for Tune's files; None: the system's default
    working_dir: str | None = None  # sent to workers on other hosts, which start in it
    template: str | None = None  # the socket of workers' template, for a new node
    advice: str = "The same command resumes the study."  # for the message that Ray has died


@contextlib.contextmanager
def connected(fleet: Fleet) -> Iterator[None]:
    """Connect to Ray, quietly; a node that is started here is stopped at the end."""
    with quiet(fleet), contextlib.ExitStack() as stack:
        if not ray.is_initialized():
            _join(fleet, stack)
        yield


def _join(fleet: Fleet, stack: contextlib.ExitStack) -> None:
    address = fleet.address or os.environ.get("RAY_ADDRESS")
    try:
        if address in (None, "local"):
            _start(fleet, stack)
        else:
            _connect(fleet, str(address))
    except (TrialError, RayDied):
        raise
    except Exception as error:
        raise TrialError(_no_ray(address, error)) from error
    finally:  # after an error, too: Ray may have started, with too few GPUs for example
        stack.callback(_end)


def _end() -> None:
    """End Ray, after what refers to its objects.

    Tune's loop is garbage by now, in cycles. Whichever thread collects it while Ray ends calls Ray,
    which then ends this process.
    """
    gc.collect()
    ray.shutdown()


def _start(fleet: Fleet, stack: contextlib.ExitStack) -> None:
    """Start a local node. Its workers inherit this process's environment.

    Raises `RayDied` if it was not ready in time, and may be tried again.
    """
    # Ray protects a local node by a token, which it would otherwise leave in ~/.ray.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    settings = {"RAY_USAGE_STATS_ENABLED": "0", **worker_env(fleet.cpus_per_trial)}
    with (
        environment(settings),
        _in_time(),
        _detached_processes() as start,
        ray_private.own_node(start, fleet.template),
        _handlers_restored(),
    ):
        ray.init(
            address="local",
            num_cpus=max(1, round((fleet.workers or 1) * fleet.cpus_per_trial)),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            **ray_private.init_options(LOOPBACK, _session_folder(fleet, stack)),
            **_loudness(fleet),
        )
    num_gpus = ray.cluster_resources().get("GPU", 0)
    if num_gpus < fleet.gpus_per_trial:
        raise TrialError(
            f"each trial needs {fleet.gpus_per_trial:g} GPUs, and Ray finds {num_gpus:g} on this "
            "machine. Request fewer, or set RAY_ADDRESS to a cluster."
        )


def _connect(fleet: Fleet, address: str) -> None:
    check_address(address)
    runtime_env: dict[str, Any] = {"env_vars": worker_env(fleet.cpus_per_trial)}
    if fleet.working_dir is not None:
        runtime_env["working_dir"] = fleet.working_dir
    settings = {} if fleet.verbose else {"RAY_BACKEND_LOG_LEVEL": "fatal"}
    settings["RAY_OVERRIDE_JOB_RUNTIME_ENV"] = "1"  # ours takes precedence over that of a Ray job
    with environment(settings), _handlers_restored():
        ray.init(address=address, runtime_env=runtime_env, **_loudness(fleet))


def room(fleet: Fleet) -> int:
    """How many trials the cluster can run at a time, at its current size."""
    resources = ray.cluster_resources()
    wanted = {"CPU": fleet.cpus_per_trial, "GPU": fleet.gpus_per_trial}
    return max(1, min(int(resources.get(name, 0) / num) for name, num in wanted.items() if num))


def check_address(address: str) -> None:
    """Try the port first: Ray itself takes two minutes to report that nothing listens."""
    if address.startswith("ray://"):
        raise TrialError(
            f"the address {address} is Ray Client's. Use the cluster's own address (HOST:6379) "
            "from a machine inside it, or submit the command as a job."
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return  # "auto", or something that Ray will refuse at once
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise TrialError(_no_ray(address, error)) from error


def _no_ray(address: str | None, error: Exception) -> str:
    if address is None:
        return f"Ray does not start on this machine: {error}. To run without it: --local."
    return (
        f"no Ray answers at {address}: {error}. Check the address (RAY_ADDRESS), the token if it "
        "has one (RAY_AUTH_MODE=token, RAY_AUTH_TOKEN), and that the cluster is up. To use no "
        "cluster, unset RAY_ADDRESS; to run without Ray: --local."
    )


def _loudness(fleet: Fleet) -> dict[str, Any]:
    level = logging.INFO if fleet.verbose else logging.CRITICAL
    return {"log_to_driver": fleet.verbose, "logging_level": level}


def _session_folder(fleet: Fleet, stack: contextlib.ExitStack) -> str | None:
    """A temporary folder for the node's logs and sockets; None: Ray's default, which stays."""
    short = [path for path in temporary_folders() if len(str(path)) <= LONGEST_FOLDER]
    parent = next((path for path in short if os.access(path, os.W_OK)), None)
    if fleet.verbose or parent is None:
        return None
    return str(stack.enter_context(owned_folder("ablate-ray-", parent)))


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """Ray gives its GCS and its raylet 30 seconds each, which an overloaded machine may exceed."""
    start = time.monotonic()
    try:
        yield
    except Exception as error:
        if "timed out" not in str(error).lower():
            raise
        seconds = time.monotonic() - start
        text = f"Ray was not ready after {seconds:.0f} s (is this machine overloaded?)"
        raise RayDied(text, ours=True) from error


@contextlib.contextmanager
def _detached_processes() -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts processes that a signal to the driver's group (Ctrl-C, `timeout`) does not reach.

    If the block fails, they are killed: Ray forgets the parts of a node that did not start.
    """
    started: list[subprocess.Popen] = []

    def start(*args: Any, **options: Any) -> subprocess.Popen:
        started.append(subprocess.Popen(*args, process_group=0, **options))
        return started[-1]

    try:
        yield start
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise


@contextlib.contextmanager
def _handlers_restored() -> Iterator[None]:
    """Restore the caller's signal handlers: Ray installs its own for SIGTERM."""
    # Python lets no other thread set handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {num: signal.getsignal(num) for num in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for num, handler in handlers.items():
            signal.signal(num, handler)


@contextlib.contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables inside the block."""
    before = {name: os.environ[name] for name in settings if name in os.environ}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            os.environ.pop(name, None)
        os.environ.update(before)


@contextlib.contextmanager
def quiet(fleet: Fleet) -> Iterator[None]:
    """Silence Ray and Tune: what matters reaches the user through the schedule."""
    if fleet.verbose:
        yield
        return
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with ray_private.raylet_silenced(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
