"""The template of a local node's workers: a process that has imported what they need, and forks.

A worker that starts by itself imports torch and this package for two to four seconds of a core, and
so does the next. The template imports them once, while the study is planned. The raylet starts
`from_template.py` in place of each worker, which asks the template for one.

A worker that was forked computes what one that starts by itself does. Its environment is the one
that its raylet gives it, and the template refuses to fork if its own was another when it imported.
The only threads that imports leave are jemalloc's and OpenBLAS's, which both begin anew in a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.store.leftovers import owned_folder, temporary_folders

# Not Ray, whose library keeps what it finds in the environment when it is imported.
NEEDED = ("ablate.tune.worker", "pandas", "torch._dynamo")  # the last one by any optimizer
# These begin names that no import here reads.
LATER = ("RAY_", "SPT_NOENV", "MLFLOW_", "GIT_PYTHON_", "ABLATE_OWN_MODULES")
# Without the current folder on the path, whose files may be called like a module that is imported.
BEGIN = "import sys; sys.flags.safe_path or sys.path.pop(0); from {} import main; main()"
PATIENCE_SECONDS = 10.0
LONGEST_FOLDER = 60  # the system limits a socket's path to 107 bytes


def worker_env(cpus_per_trial: float) -> dict[str, str]:
    """The variables of a worker, which it inherits from its node or gets from its job."""
    return {
        "OMP_NUM_THREADS": str(max(1, int(cpus_per_trial))),
        "RAY_CHDIR_TO_TRIAL_DIR": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # unset, Ray warns about it
    }


@dataclass(frozen=True)
class Template:
    """A template that runs, seen from its driver."""

    path: str  # of its socket
    running: subprocess.Popen

    def stop(self) -> None:
        """End the process before the study does: nobody will ask for a worker."""
        self.running.kill()
        self.running.wait()


@contextlib.contextmanager
def started(env: Mapping[str, str]) -> Iterator[Template | None]:
    """Run a template with these variables, or give None where it cannot run."""
    parents = [path for path in temporary_folders() if os.access(path, os.W_OK)]
    short = [path for path in parents if len(str(path)) <= LONGEST_FOLDER]
    if sys.platform != "linux" or not short:
        yield None
        return
    with owned_folder("ablate-template-", short[0]) as folder:
        path = str(folder / "socket")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen(socket.SOMAXCONN)
            number = listening.fileno()
            process = subprocess.Popen(
                [sys.executable, "-c", BEGIN.format(__name__), str(number), str(os.getpid())],
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[number],
                process_group=0,  # a signal to the driver's group does not reach it
            )
        made = Template(path, process)
        try:
            yield made
        finally:
            made.stop()


def main() -> None:
    """Serve the socket with a number, while the process with another one lives."""
    listening, driver = map(int, sys.argv[1:])
    serve(socket.socket(fileno=listening), driver)


def serve(listening: socket.socket, driver: int) -> None:
    """Fork a worker for everyone who asks at a socket, until the driver's process ends."""
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != driver:
        return  # it has died already
    began = _users(os.environ)  # what is imported may set more
    for name in NEEDED:
        with contextlib.suppress(ModuleNotFoundError):  # a study of plain functions needs no torch
            importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets ended workers
    while True:
        connection, _ = listening.accept()
        with connection:  # who gets no answer sees its end, and starts a worker that imports
            if (wanted := _received(connection)) is None:
                continue
            if _users(wanted["env"]) == began and _forked_child():
                listening.close()
                _become(wanted, connection)
                return
            for file in wanted["files"]:
                os.close(file)


def _received(connection: socket.socket) -> dict[str, Any] | None:
    """What a worker should be, with its three files; None if the other side does not say it."""
    connection.settimeout(PATIENCE_SECONDS)
    with contextlib.suppress(OSError, ValueError):
        size, files, _, _ = socket.recv_fds(connection, 8, 3)
        with connection.makefile("rb") as stream:
            wanted = json.loads(stream.read(int.from_bytes(size, "big")))
        return {**wanted, "files": files}
    return None


def _forked_child() -> bool:
    """Fork this process; True in the child, and False where there was no room for one."""
    with warnings.catch_warnings(), contextlib.suppress(OSError):
        warnings.simplefilter("ignore")  # of the threads that the top of this file names
        return os.fork() == 0
    return False


def _users(env: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that are set later."""
    return {name: value for name, value in env.items() if not name.startswith(LATER)}


def _become(wanted: dict[str, Any], connection: socket.socket) -> None:
    """Be the worker that was asked for, in a process that was forked for it, to its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)  # the raylet signals a worker's group
    for number, file in enumerate(wanted["files"]):
        os.dup2(file, number)
        os.close(file)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    os.setpriority(os.PRIO_PROCESS, 0, wanted["nice"])
    with contextlib.suppress(OSError):  # whom the system kills first when memory runs out
        Path("/proc/self/oom_score_adj").write_text(wanted["oom"])
    connection.settimeout(None)
    random.seed()
    sys.modules["numpy"].random.seed()
    connection.sendall(b"y")
    threading.Thread(target=_die_with, args=[connection], daemon=True).start()
    script = wanted["command"][0]
    sys.argv = wanted["command"]
    if not sys.flags.safe_path:
        sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")
    sys.exit()


def _die_with(connection: socket.socket) -> None:
    """Die when the other side does, which the raylet has started."""
    with contextlib.suppress(OSError):  # closed here: this process ends by itself
        connection.recv(1)
        os.kill(os.getpid(), signal.SIGKILL)
