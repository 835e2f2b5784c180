"""Atomic file writes, and file locks that are released when a process is killed."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import IO

PARTIAL = ".partial"
POLL_SECONDS = 0.02


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """Write, sync, rename: readers see the old file or the new one, even after a crash."""
    handle, partial = tempfile.mkstemp(dir=path.parent, suffix=PARTIAL)
    try:
        with os.fdopen(handle, "wb") as file:
            lock(file, seconds=0)  # while its writer lives, nobody sweeps it
            file.write(data)
        replace_synced(Path(partial), path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def replace_synced(partial: Path, path: Path) -> None:
    """Move a finished file to its final path, durably."""
    sync(partial)
    os.replace(partial, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make what a file holds, or a rename in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock(file: IO | int, *, shared: bool = False, seconds: float | None = None) -> bool:
    """Lock an open file; the lock is released when the file is closed or the process dies.

    Waits up to `seconds` (None: forever), and returns whether the file was locked. On a system
    without file locks it always returns True.
    """
    try:
        import fcntl
    except ImportError:
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
