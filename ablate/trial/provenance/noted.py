"""The file in which the processes that a trial starts note what they open (`in_children`)."""

from __future__ import annotations

import ast
import contextlib
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ablate.store.leftovers import owned_folder
from ablate.trial.provenance.in_children import sitecustomize
from ablate.trial.provenance.in_children.sitecustomize import VARIABLE, Notes


class Note(NamedTuple):
    """An opening of a file, and when the file had last been changed if it was read."""

    path: str
    is_written: bool
    changed: int  # in nanoseconds, as `os.stat` says


class NotesFile:
    """A file of notes, made when a process first needs it; `new` reads what has been added."""

    def __init__(self, folders: Sequence[str]) -> None:
        """`folders`: where noted files lie, each with a separator at its end."""
        self._folders = folders
        self._path: Path | None = None
        self._num_bytes = 0  # that were read
        self._owned = contextlib.ExitStack()
        weakref.finalize(self, self._owned.close)

    def environment(self) -> Mapping[str, str]:
        """Variables with which a Python that is started, or one that it starts, writes notes."""
        before = os.environ.get("PYTHONPATH")
        ours = os.path.dirname(os.path.abspath(sitecustomize.__file__))
        return {
            "PYTHONPATH": os.pathsep.join([ours, before] if before else [ours]),
            VARIABLE: "\n".join([str(self._made()), *self._folders]),
        }

    def of_fork(self) -> Notes:
        """What takes notes in a fork of this process."""
        return Notes(str(self._path), self._folders)

    def new(self) -> Iterator[Note]:
        """Yield the notes since the last time."""
        lines = b""
        with contextlib.suppress(OSError):  # a fork may have removed what is its parent's
            if self._path is not None:
                with self._path.open("rb") as file:
                    file.seek(self._num_bytes)
                    lines = file.read()
        lines = lines[: lines.rfind(b"\n") + 1]  # the last one may not be whole yet
        self._num_bytes += len(lines)
        for line in lines.splitlines():
            with contextlib.suppress(SyntaxError, ValueError, TypeError):
                yield Note(*ast.literal_eval(line.decode()))

    def _made(self) -> Path:
        if self._path is None:
            own = owned_folder("ablate-notes-", Path(tempfile.gettempdir()))
            self._path = self._owned.enter_context(own) / "notes"
            self._path.touch()
        return self._path
