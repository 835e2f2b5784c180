"""Which trials this driver runs: drivers of other studies on this machine wait for their outcome.

Every trial is a byte of one file in the store's folder, which its driver locks while the trial
runs. A driver that dies releases its locks. Drivers on other hosts are not kept from anything.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path

from ablate.store.store import Store

try:
    import fcntl
except ImportError:  # a system without file locks
    fcntl = None

FILE = "running.lock"


class Claims:
    """The trials that this process runs."""

    def __init__(self, store: Store) -> None:
        self._folder = store.folder
        self._file: int | None = None

    def claim(self, trial_id: str) -> bool:
        """Return whether no other process runs the trial; none will until it is released."""
        if fcntl is None or self._folder is None:
            return True
        mode = fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            fcntl.lockf(self._opened(self._folder), mode, 1, _byte(trial_id))
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True

    def release(self, trial_id: str) -> None:
        """Let other processes run the trial."""
        if fcntl is not None and self._file is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte(trial_id))

    def _opened(self, folder: Path) -> int:
        if self._file is None:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o666)
            weakref.finalize(self, os.close, self._file)
        return self._file


def _byte(trial_id: str) -> int:
    return int(trial_id, 16) >> 1  # a file has no more than 2^63
