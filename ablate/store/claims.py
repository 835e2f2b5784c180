"""Which trials this process runs: drivers of other studies on this machine wait for their outcome.

Every trial is a byte of one file, which is locked while the trial runs. The file is in the store's
folder; for a store elsewhere, in this user's own folder for temporary files. A process that dies
releases its locks. Processes on other hosts are not kept from anything.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from pathlib import Path

from ablate.config.identity import digest
from ablate.store.files import own_temporary
from ablate.store.locks import lock_byte, unlock_byte
from ablate.store.store import Store

FILE = "running.lock"


class Claims:
    """The trials that one driver of this process runs. Within a process they exclude nobody."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._file: _File | None = None
        self.held: set[str] = set()

    def claim(self, trial_id: str) -> bool:
        """Return whether no other process runs the trial; none will until it is released."""
        with _changing, contextlib.suppress(OSError):  # a store that cannot be written to
            if not lock_byte(self._opened().handle, _byte(trial_id)):
                return False
            self.held.add(trial_id)
        return True

    def release(self, trial_id: str) -> None:
        """Let other processes run the trial."""
        with _changing:
            self.held.discard(trial_id)
            if self._file is not None:
                self._file.unlock_unheld(trial_id)

    def close(self) -> None:
        """Let other processes run all of this driver's trials."""
        for trial_id in tuple(self.held):
            self.release(trial_id)
        self._file = None

    def _opened(self) -> _File:
        if self._file is None:
            self._file = _open(self._store.folder or _of_remote(self._store.uri))
            self._file.users.add(self)
        return self._file


def _of_remote(uri: str) -> Path:
    """This user's folder for the locks of a store that has none on this machine."""
    return own_temporary() / "claims" / digest(uri)


class _File:
    """The lock file, opened once: whenever a process closes a file, it loses all locks on it."""

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self.users: weakref.WeakSet[Claims] = weakref.WeakSet()
        weakref.finalize(self, os.close, self.handle)

    def unlock_unheld(self, trial_id: str) -> None:
        """Unlock the trial, unless another driver of this process runs it too."""
        if not any(trial_id in user.held for user in self.users):
            unlock_byte(self.handle, _byte(trial_id))

    def inode(self) -> tuple[int, int]:
        return _inode(os.fstat(self.handle))


_files: weakref.WeakValueDictionary[tuple[int, int], _File] = weakref.WeakValueDictionary()
_changing = threading.RLock()


def _open(folder: Path) -> _File:
    """This process's only handle of the folder's file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    with contextlib.suppress(FileNotFoundError):
        if (known := _files.get(_inode(path.stat()))) is not None:
            return known
    file = _File(path)
    _files[file.inode()] = file
    return file


def _inode(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def _byte(trial_id: str) -> int:
    return int(trial_id, 16) >> 1  # a file has no more than 2^63
