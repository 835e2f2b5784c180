"""Who keeps whom out: over what distance, for how long, and what is left when a holder dies.

    what is locked, and by which file      who is kept apart            reach   until
    -------------------------------------  ---------------------------  ------  ------------------
    a byte of the store's `running.lock`   drivers, and `ablate trial`  host    the trial has ended
      for each trial: store/claims           of one trial
    `driver.json` of a study in a store    drivers of a study           host    the driver ends
      on a disk: store/workspace
    `lease.json` of a study in a store     drivers of a study           hosts   the driver ends
      elsewhere: store/lease
    `<key>.driver.json` beside the log of  drivers of a study that      host    the driver ends
      its searches: store/workspace          have different stores
    `.owner` of a temporary folder:        its owner, and who sweeps    host    the folder is gone
      store/leftovers
    a partial file: store/files            its writer, and who sweeps   host    it is renamed
    a trial's folder: store/store          who records reads of the     host    a read is recorded
                                             test split
    `<server>.lock`: record/client         a user's processes that      host    a run exists there
                                             begin runs on a server
    `lock` of the mirror: record/mirror    who brings it up to date     host    it is up to date
    the folder of encodings:               who encodes a corpus         host    it is encoded
      lm/data/encoded
    `<ledger>.lock`: judging/ledger        judges with one ledger        host    a judgement is made
    `native.lock`: lm/model/native        who builds the kernels       host    they are built

A second driver is refused, with the name of the first one. Who sweeps skips what is locked. Who
updates the mirror waits for a limited time. All others wait until it is their turn.

When a holder dies, the operating system ends its locks on this host, and a file that stays keeps
nobody out; the next driver sweeps temporary folders and the locks of servers. A lease is a number
that its holder increases: whoever sees it rest for twenty seconds takes the study over, and a
holder that comes back finds another name there and stops.

A claim excludes other processes only (`lockf`), so that two drivers of one process share trials; a
file or folder also excludes other threads (`flock`). Where a file system has no locks, nobody is
kept out, and files are still replaced whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ablate.errors import HeldError, StoreError

try:
    import fcntl
except ImportError:  # a system without file locks
    fcntl = None

POLL_SECONDS = 0.02
Process = Mapping[str, Any]  # what a lease or a lock records of its holder


def lock(file: IO | int, *, shared: bool = False, seconds: float | None = None) -> bool:
    """Lock an open file or folder until it is closed or the process dies.

    Waits up to `seconds` (None: forever), and returns whether the file was locked. On a system
    without file locks it always returns True.
    """
    if fcntl is None:
        return True
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, mode if end is None else mode | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(POLL_SECONDS)
        except OSError:
            return True


def lock_byte(handle: int, byte: int) -> bool:
    """Lock a byte of an open file against other processes; return whether none had locked it."""
    try:
        if fcntl is not None:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def unlock_byte(handle: int, byte: int) -> None:
    """Unlock one byte of an open file, if it is locked."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.lockf(handle, fcntl.LOCK_UN, 1, byte)


@contextlib.contextmanager
def locked(path: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold the lock of a file, once nobody else does; make the file, and remove it afterwards."""
    while True:
        path.parent.mkdir(exist_ok=True)  # swept before it was locked
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "a") as file:
            lock(file)
            if not _is_at(file.fileno(), path):  # the one before removed it
                continue
            try:
                yield
            finally:
                if remove:
                    path.unlink(missing_ok=True)
            return


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, once nobody else does; make the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock(handle)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def unlocked(path: Path) -> Iterator[None]:
    """Hold the lock of a file that nobody else has locked; else raise an `OSError`."""
    with path.open("rb") as file:
        if not lock(file, seconds=0):
            raise BlockingIOError
        yield


def _is_at(handle: int, path: Path) -> bool:
    """Return whether an open file is still the one with this name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def signed(path: Path, seconds: float, refusal: Callable[[Process], HeldError]) -> Iterator[None]:
    """Hold the lock of a file that names its holder. If another process holds the lock for
    `seconds`, raise the refusal that names this process."""
    with _opened(path) as file:
        if not lock(file, seconds=seconds):
            raise refusal(_signature(file))
        try:  # with no buffer that would be written again at its end
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), json.dumps(this_process()).encode())
        except OSError as error:
            raise _unwritable(path, error) from error
        yield


def _opened(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")
    except OSError as error:
        raise _unwritable(path.parent, error) from error


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot write {path}: {error.strerror or error}. Free some space, or choose another "
        "folder with --workspace."
    )


def holder(path: Path) -> str | None:
    """The process that has locked such a file, or None."""
    try:
        with path.open() as file:
            return None if lock(file, shared=True, seconds=0) else name(_signature(file))
    except OSError:  # never locked, or not readable by this user
        return None


def _signature(file: IO[str]) -> Process:
    file.seek(0)
    try:
        stored = json.loads(file.read())
    except ValueError:  # it has locked the file, and not written it yet
        stored = {}
    return stored if isinstance(stored, dict) else {}


def this_process() -> dict[str, Any]:
    """Describe this process for others that want its lock."""
    now = time.strftime("%H:%M:%S")
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": now}


def name(process: Process) -> str:
    """Return how messages name a process that holds a lock."""
    if "pid" not in process:
        return "another process"
    return f"process {process.get('pid')} on {process.get('host')} since {process.get('since')}"


def lives(pid: int) -> bool:
    """Return whether a process of this host has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's, so it lives
        pass
    return True
