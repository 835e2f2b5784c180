"""What killed processes leave behind, and its removal at the next start.

A process locks a file in every folder that it owns. However the process ends, its locks end too, so
a folder whose file nobody has locked is a leftover and is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ablate.store.files import PARTIAL
from ablate.store.locks import lives, locked, unlocked

OWNER = ".owner"  # the file that the owner of a folder has locked
SHORT = ("/tmp", "/var/tmp")  # for sockets, if the user's own folder has a long path
YOUNG_SECONDS = 60.0  # without a change of a partial file: its writer may not lock it
WRITER = re.compile(r"\.(\d+)(-\d+)?" + re.escape(PARTIAL))  # a process named in a file's name


def temporary_folders() -> list[Path]:
    """The folders for temporary files, the preferred one first; the last ones have short paths."""
    chosen = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    return [Path(path) for path in dict.fromkeys((chosen, tempfile.gettempdir(), *SHORT))]


@contextlib.contextmanager
def owned_folder(prefix: str, parent: Path) -> Iterator[Path]:
    """A temporary folder, which `sweep` leaves alone while this process lives."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with locked(folder / OWNER):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(workspace: Path, folders: Iterable[Path]) -> None:
    """Remove what killed drivers left in a workspace, and in these folders for temporary files."""
    _sweep_owned(workspace / "ray", "tune-")
    for folder in folders:
        _sweep_owned(folder, "ablate-")
        for path in _ours(folder.glob(f"ablate-{os.getuid()}/*.lock")):
            with contextlib.suppress(OSError), unlocked(path):
                path.unlink()
    sweep_partial([*workspace.glob(f"*{PARTIAL}"), *(workspace / "data").rglob(f"*{PARTIAL}")])


def _sweep_owned(parent: Path, prefix: str) -> None:
    """Remove the folders of `owned_folder` whose owner is dead."""
    for folder in _ours(parent.glob(f"{prefix}*")):
        with contextlib.suppress(OSError), unlocked(folder / OWNER):
            shutil.rmtree(folder)


def sweep_partial(paths: Iterable[Path]) -> None:
    """Remove the files that nobody will finish."""
    for path in _ours(paths):
        writer = WRITER.search(path.name)
        if writer is not None and lives(int(writer[1])):
            continue
        with contextlib.suppress(OSError), unlocked(path):
            if time.time() - path.stat().st_mtime > YOUNG_SECONDS:
                path.unlink()


def _ours(paths: Iterable[Path]) -> Iterator[Path]:
    """Those that belong to this user."""
    for path in paths:
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == os.getuid():
                yield path
