"""`run.folder`: a folder for files of a trial, which are stored when the trial completes.

It is temporary and of this attempt alone: a trial that resumes finds it empty. If there is too much
in it, the trial keeps its result, and its files are left out with a message: hours of training are
worth more than a picture of them.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from ablate.errors import StoreError
from ablate.store.files import read_regular
from ablate.store.leftovers import owned_folder
from ablate.store.trial_files import is_name

MOST_FILES, MOST_BYTES = 100, 16_000_000


class RunFolder:
    """Makes the folder when it is first wanted, and removes it at the end."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._owned = contextlib.ExitStack()
        # Also for a trial that fails. If this process is killed, the next driver removes it.
        weakref.finalize(self, self._owned.close)

    @property
    def path(self) -> Path:
        """The folder."""
        if self._path is None:
            try:
                own = owned_folder("ablate-files-", Path(tempfile.gettempdir()))
                self._path = self._owned.enter_context(own) / "files"
                self._path.mkdir()
            except OSError as error:
                raise StoreError(
                    f"run.folder cannot be made in {tempfile.gettempdir()}: {error.strerror}. "
                    "Free some space, or name another folder in TMPDIR."
                ) from error
        return self._path

    def taken(self) -> dict[str, bytes]:
        """The files by name, after which the folder is gone; none if they cannot be stored."""
        try:
            found = [] if self._path is None else [*_found(self._path)]
            if why := _too_much([path for _, path in found]):
                print(f"The files in run.folder are not stored: {why}", file=sys.stderr)
                return {}
            return {name: read_regular(path) for name, path in found}
        finally:
            self._owned.close()
            self._path = None


def _found(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files with their names; say which are left out."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        # A link could lead to any file of this host, and what it leads to is not in the folder.
        for name in (*sorted(names), *(one for one in folders if Path(parent, one).is_symlink())):
            path = Path(parent, name)
            shown = path.relative_to(folder).as_posix()
            if not stat.S_ISREG(path.lstat().st_mode):
                print(f"run.folder: {shown!r} is not stored: it is not a file", file=sys.stderr)
            elif not is_name(shown):
                print(
                    f"run.folder: {shown!r} is not stored. Expected: a printable name of at most "
                    "200 characters, with its folders, without \\ and no part that starts with .",
                    file=sys.stderr,
                )
            else:
                yield shown, path


def _too_much(files: list[Path]) -> str:
    """Why so many files, or such large ones, are not stored; empty if they are."""
    size = sum(path.stat().st_size for path in files)
    if len(files) <= MOST_FILES and size <= MOST_BYTES:
        return ""
    return (
        f"{len(files)} files of {size / 1e6:.1f} MB in all. A trial may leave {MOST_FILES} files "
        f"of {MOST_BYTES / 1e6:.0f} MB in all. Instead: write larger ones to a place of your own."
    )
