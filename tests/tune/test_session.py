"""How Ray is started and joined: its settings, and the messages when it does not answer.

No Ray is started here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray._private import ray_constants, services, worker

from ablate.errors import TrialError
from ablate.tune.cluster import session
from ablate.tune.cluster.ray_private import own_node
from ablate.tune.cluster.session import Fleet
from ablate.tune.cluster.watch import RayDied


@pytest.fixture
def told(monkeypatch) -> list[dict[str, Any]]:
    """What `ray.init` was given, and the variables that were set meanwhile; with two GPUs."""
    calls: list[dict[str, Any]] = []
    names = ("RAY_BACKEND_LOG_LEVEL", "RAY_OVERRIDE_JOB_RUNTIME_ENV", "RAY_USAGE_STATS_ENABLED")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of the user's")

    def init(**options: Any) -> None:
        calls.append({**options, **{name: os.environ.get(name) for name in names}})

    fake = SimpleNamespace(
        init=init,
        cluster_resources=lambda: {"CPU": 7.0, "GPU": 2.0},
        is_initialized=lambda: False,
        shutdown=lambda: calls.append({"shutdown": True}),
    )
    monkeypatch.setattr(session, "ray", fake)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return calls


def started(fleet: Fleet) -> None:
    with contextlib.ExitStack() as stack:
        session._start(fleet, stack)


@pytest.mark.parametrize(
    ("workers", "each", "cpus"), [(None, 1.0, 1), (3, 2.0, 6), (1, 0.25, 1), (3, 0.5, 2)]
)
def test_a_ray_of_our_own_is_local_and_as_large_as_its_workers(told, workers, each, cpus):
    started(Fleet(workers=workers, cpus_per_trial=each))
    (options,) = told
    assert (options["address"], options["num_cpus"]) == ("local", cpus)
    assert options["_node_ip_address"] == "127.0.0.1" and not options["include_dashboard"]
    assert options["RAY_USAGE_STATS_ENABLED"] == "0"
    least = ray_constants.OBJECT_STORE_MINIMUM_MEMORY_BYTES
    assert least <= options["object_store_memory"] < 1.1 * least
    assert not options["log_to_driver"] and options["logging_level"] == logging.CRITICAL
    assert os.environ["RAY_AUTH_TOKEN"] == "of the user's"


def test_as_many_gpus_as_a_trial_needs_are_there_or_it_is_said(told):
    started(Fleet(gpus_per_trial=2.0))
    with pytest.raises(TrialError, match=r"each trial needs 3 GPUs, and Ray finds 2 on this"):
        started(Fleet(gpus_per_trial=3.0))


def test_a_machine_without_gpus_is_enough_for_trials_without(told, monkeypatch):
    monkeypatch.setattr(session.ray, "cluster_resources", lambda: {"CPU": 2.0})
    started(Fleet())
    with pytest.raises(TrialError, match=r"needs 0\.5 GPUs, and Ray finds 0 "):
        started(Fleet(gpus_per_trial=0.5))


@pytest.mark.parametrize("verbose", [True, False])
@pytest.mark.parametrize("folder", [None, "/code"])
def test_a_cluster_is_joined_quietly_with_the_study_s_folder(told, verbose, folder):
    session._connect(Fleet(verbose=verbose, working_dir=folder, cpus_per_trial=2.5), "auto")
    (options,) = told
    sent = options["runtime_env"]
    assert sent.get("working_dir") == folder and ("working_dir" in sent) == (folder is not None)
    assert sent["env_vars"] == {
        "OMP_NUM_THREADS": "2",
        "RAY_CHDIR_TO_TRIAL_DIR": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    assert options["RAY_BACKEND_LOG_LEVEL"] == (None if verbose else "fatal")
    assert options["RAY_OVERRIDE_JOB_RUNTIME_ENV"] == "1" and options["address"] == "auto"
    assert options["log_to_driver"] == verbose
    assert options["logging_level"] == (logging.INFO if verbose else logging.CRITICAL)


@pytest.mark.parametrize(
    ("cpus", "gpus", "trials"), [(1, 0, 7), (2, 0, 3), (8, 0, 1), (1, 0.5, 4), (3, 1, 2), (0, 1, 2)]
)
def test_a_cluster_has_room_for_what_both_allow(told, cpus, gpus, trials):
    assert session.room(Fleet(cpus_per_trial=cpus, gpus_per_trial=gpus)) == trials


def test_a_kind_that_a_cluster_does_not_have_leaves_room_for_one(told, monkeypatch):
    """It may come: an autoscaler starts it when a trial asks for it."""
    monkeypatch.setattr(session.ray, "cluster_resources", lambda: {"CPU": 4.0})
    assert session.room(Fleet(gpus_per_trial=1)) == session.room(Fleet(gpus_per_trial=0.5)) == 1


def test_an_address_is_tried_before_ray_is_asked():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        listening.listen()
        session.check_address(address)
    with pytest.raises(TrialError, match=rf"^no Ray answers at {address}: .*unset RAY_ADDRESS"):
        session.check_address(address)
    for word in ("auto", "somewhere", "host:name", ":6379"):
        session.check_address(word)  # Ray refuses it at once, or knows it
    with pytest.raises(TrialError, match="is Ray Client's"):
        session.check_address("ray://head:10001")


def test_a_ray_that_does_not_start_leads_to_doing_without(told, monkeypatch):
    def broken(**_: Any) -> None:
        raise RuntimeError("no sockets")

    monkeypatch.setattr(session.ray, "init", broken)
    with (
        pytest.raises(TrialError, match=r"^Ray does not start on this machine: no sockets\. .*--l"),
        session.connected(Fleet()),
    ):
        pass
    assert told == [{"shutdown": True}]


@pytest.mark.parametrize("text", ["Timed out waiting for GCS", "it has timed out"])
def test_a_ray_that_is_slow_to_start_may_be_tried_again(text):
    with pytest.raises(RayDied, match=r"^Ray was not ready after 0 s") as died, session._in_time():
        raise RuntimeError(text)
    assert died.value.ours
    with pytest.raises(RuntimeError, match="another"), session._in_time():
        raise RuntimeError("another")


def test_ray_s_files_are_below_the_first_short_folder_that_can_be_written(tmp_path, monkeypatch):
    short = Path("/t" * 15)
    assert len(str(short)) == session.LONGEST_FOLDER
    made: list[Path] = []

    @contextlib.contextmanager
    def owned(name: str, parent: Path):
        made.append(parent)
        yield parent / name

    monkeypatch.setattr(session, "owned_folder", owned)
    monkeypatch.setattr(session.os, "access", lambda path, mode: path != Path("/closed"))
    for folders, parent in (
        ([Path(f"{short}x"), Path("/closed"), short, Path("/tmp")], short),
        ([Path(f"{short}x"), Path("/closed")], None),
    ):
        monkeypatch.setattr(session, "temporary_folders", lambda folders=folders: folders)
        with contextlib.ExitStack() as stack:
            found = session._session_folder(Fleet(), stack)
            assert found == (parent and f"{parent}/ablate-ray-")
            assert session._session_folder(Fleet(verbose=True), stack) is None
    assert made == [short]


def test_ray_s_processes_have_groups_of_their_own_and_are_killed_if_one_does_not_start():
    """A signal to the driver's group, such as that of Ctrl-C, does not reach them."""
    before, commands = services.ConsolePopen, (["sleep", "60"], ["sleep", "61"])
    processes = []
    detached = session._detached_processes
    with pytest.raises(OSError, match="the third"), detached() as start, own_node(start):
        processes += [services.ConsolePopen(command) for command in commands]
        assert [process.args for process in processes] == list(commands)
        assert [os.getpgid(process.pid) for process in processes] == [p.pid for p in processes]
        raise OSError("the third")
    assert [process.returncode for process in processes] == [-signal.SIGKILL] * 2
    assert services.ConsolePopen is before


def test_the_driver_keeps_its_own_signal_handlers():
    """Ray installs one for SIGTERM; only the main thread can put one back."""
    before = signal.getsignal(signal.SIGTERM)
    with session._handlers_restored():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is before
    errors: list[BaseException] = []

    def elsewhere() -> None:
        try:
            with session._handlers_restored():
                pass
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert errors == []


@pytest.mark.parametrize("verbose", [True, False])
def test_ray_and_tune_are_silent_unless_their_messages_are_asked_for(verbose):
    logger, printer = logging.getLogger("ray"), worker.print_to_stdstream
    level = logger.level
    with session.quiet(Fleet(verbose=verbose)):
        assert (logger.level == level) is verbose
        assert (worker.print_to_stdstream is printer) is verbose
    assert logger.level == level and worker.print_to_stdstream is printer


@pytest.mark.parametrize("verbose", [True, False])
def test_a_warning_of_tune_s_is_shown_only_if_asked_for(verbose):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with session.quiet(Fleet(verbose=verbose)):
            warnings.warn("of Tune's", stacklevel=1)
    assert len(shown) == verbose
