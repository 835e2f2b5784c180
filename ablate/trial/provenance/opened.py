"""The files beside a study that a trial opens to read, as Python's audit hooks tell.

Noticed are files that Python opens by its own means: in this process, in its forks, and in the
commands of tasks, whose Pythons write notes (`in_children`). What a library opens in C goes
unheard, and counts if the code names it (`closure.py`).

What this process has read, its later trials may find in memory: a module with its constants, a
table that a function keeps. So a file counts for all of them, as it was when it was read.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ablate.config.contents import digest_of_contents
from ablate.trial.provenance import syntax
from ablate.trial.provenance.in_children.sitecustomize import (
    LIBRARIES,
    MOST_FILES,
    Notes,
    hear,
    path_of,
    writes,
)
from ablate.trial.provenance.noted import Note, NotesFile

WHOLE = 64_000_000  # bytes of the largest file that is hashed whole
PIECE = 1_000_000  # bytes at both ends of a larger one
EDITED = "edited after it was read"  # for the digest of contents that nobody has any more

_listening: Opened | Notes | None = None  # in a fork, notes for its parent
_is_hooked = False
_in_memory: dict[str, str] = {}  # file that this process has read -> its digest then


class Opened:
    """Notes what is opened to be read while a trial's own code runs."""

    def __init__(self, folders: Collection[Path], apart: Collection[Path] = ()) -> None:
        """`folders`: where such files lie; `apart`: what is ablate's own in there."""
        self._folders = tuple(f"{folder}{os.sep}" for folder in folders)
        self._apart = tuple(f"{folder}{os.sep}" for folder in apart)
        self._began = time.time_ns()
        self._read: dict[str, Note] = {}  # since the last look
        self._written = set[str]()
        self._known, self._num = set[str](), Counter[str]()  # what was looked at, by folder
        self._digests: dict[str, str] = {}  # as each file was when it was read
        self.notes = NotesFile(self._folders)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Note what this process opens in the block."""
        global _listening, _is_hooked
        if not self._folders:
            yield
            return
        if not _is_hooked:  # a hook stays for ever, and does nothing outside such blocks
            sys.addaudithook(_hear)
            os.register_at_fork(before=of_children, after_in_child=_in_fork)
            _is_hooked = True
        outer, _listening = _listening, self
        try:
            yield
        finally:
            _listening = outer
            self._keep()

    def take_in(self, path: Any, mode: Any, flags: Any) -> None:
        """Note one opening. What is written, at any time, is no input."""
        name = path_of(path)
        if not name or not self._is_beside(name):
            return
        if writes(mode, flags):
            self._written.add(name)
        elif name not in self._read:
            self._read[name] = Note(name, False, os.stat(name).st_mtime_ns)

    def digests(self, apart: Collection[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
        """The digests of the files of code, and of all others, by their paths beside the study,
        without those `apart`. A folder of many files is one."""
        earlier = {path: digest for path, digest in _in_memory.items() if self._is_beside(path)}
        code, data = dict[str, str](), dict[str, str]()
        found = earlier | self._digests
        for path, digest in sorted(found.items()):
            name, folder = self._name(path), f"{os.path.dirname(path)}{os.sep}"
            if path in self._written or path in apart:
                continue
            if path.endswith(".py"):
                code[name] = digest
            elif path == folder or folder not in found:
                data[f"{name}/" if path == folder else name] = digest
        return code, data

    @property
    def written(self) -> set[str]:
        """The files that were written, by their paths beside the study."""
        return {*map(self._name, self._written)}

    def is_changed(self, name: str) -> bool:
        """Return whether a file beside the study was written after the trial began."""
        files = (f"{folder}{name}" for folder in self._folders)
        return any(os.path.isfile(f) and os.stat(f).st_mtime_ns >= self._began for f in files)

    def _keep(self) -> None:
        """Keep the digests of what was read; in memory, for this process's later trials too."""
        for path in self._written:
            _in_memory.pop(path, None)
        for note in list(self._read.values()):
            self._look(note, is_own=True)
        self._read.clear()
        of_others = [note for note in self.notes.new() if self._is_beside(note.path)]
        self._written |= {note.path for note in of_others if note.is_written}
        for note in of_others:
            self._look(note, is_own=False)

    def _look(self, note: Note, is_own: bool) -> None:
        path = _source(note.path)
        if path in self._known or path in self._written:
            return
        self._known.add(path)
        is_code = path.endswith(".py")
        is_output = note.changed >= self._began and not is_code
        if is_output or not self._counts(path):
            return
        folder = f"{os.path.dirname(path)}{os.sep}"
        self._num[folder] += 1
        name = folder if self._num[folder] > MOST_FILES and not is_code else path
        if name not in self._digests:
            is_edited = name == note.path and os.stat(name).st_mtime_ns != note.changed
            self._digests[name] = EDITED if is_edited else digest_of(Path(name))
            if is_own:
                _in_memory[name] = self._digests[name]

    def _counts(self, path: str) -> bool:
        return not self._is_strange(path) and os.path.isfile(path)

    def _is_beside(self, path: str) -> bool:
        return path.startswith(self._folders) and not path.startswith(self._apart)

    def _is_strange(self, path: str) -> bool:
        """Return whether a file is hidden, or a library's."""
        parts = Path(self._name(path)).parts
        return any(part.startswith(".") or part in LIBRARIES for part in parts)

    def _name(self, path: str) -> str:
        """The path beside the study."""
        root = max((each for each in self._folders if path.startswith(each)), key=len)
        return Path(path[len(root) :]).as_posix()


@contextlib.contextmanager
def loading(folder: Path) -> Iterator[None]:
    """Note what code of this folder reads while it is loaded: any trial may use it."""
    with Opened([folder]).listening():
        yield


def of_children() -> Mapping[str, str]:
    """Variables of a process that the trial's own code starts, with which its files are noted."""
    if isinstance(_listening, Opened):
        with contextlib.suppress(OSError):
            return _listening.notes.environment()
    return {}


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _listening is not None:
        hear(_listening, event, arguments)


def _in_fork() -> None:
    global _listening
    if isinstance(_listening, Opened):
        _listening = _listening.notes.of_fork()


def _source(path: str) -> str:
    """The file of code, for its compiled form."""
    try:
        return importlib.util.source_from_cache(path) if path.endswith(".pyc") else path
    except ValueError:
        return path


def digest_of(path: Path) -> str:
    """The digest of a file's contents; of a large one's ends, size and time; of a folder's list."""
    if path.is_dir():
        listed = sorted((e.name, e.stat().st_size, e.stat().st_mtime_ns) for e in os.scandir(path))
        return hashlib.sha256(repr(listed).encode()).hexdigest()[: syntax.DIGITS]
    known = path.stat()
    if path.suffix == ".py":
        return syntax.read(path).digest
    if known.st_size <= WHOLE:
        return digest_of_contents(str(path))[: syntax.DIGITS]
    with path.open("rb") as file:
        ends = file.read(PIECE)
        file.seek(-PIECE, os.SEEK_END)
        ends += file.read(PIECE)
    whole = hashlib.sha256(f"{known.st_size} {known.st_mtime_ns}".encode() + ends)
    return whole.hexdigest()[: syntax.DIGITS]
