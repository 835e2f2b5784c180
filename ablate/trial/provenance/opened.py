"""The files beside a study that a trial opens to read, as Python's audit hooks tell.

Only files that this process opens by Python's own means are noticed: no child process's, and none
that a library opens in C.

What a process has read, its later trials may find in memory: a module with its constants, a table
that a function keeps. So a file counts for all of them, as it was when it was read.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ablate.config.contents import digest_of_contents
from ablate.trial.provenance import syntax

LIBRARIES = {"site-packages", "dist-packages"}  # of this environment, and of those around it
WHOLE = 64_000_000  # bytes of the largest file that is hashed whole
PIECE = 1_000_000  # bytes at both ends of a larger one
MOST_FILES = 200  # of a folder, that are recorded one by one

_listening: Opened | None = None
_is_hooked = False
_in_memory: dict[str, str] = {}  # file that this process has read -> its digest then


class Opened:
    """Notes what is opened to be read while a trial's own code runs."""

    def __init__(
        self, folders: Collection[Path], apart: Collection[Path] = (), *, only_data: bool = False
    ) -> None:
        """`folders`: where such files lie; `apart`: what is ablate's own in there. `only_data`:
        files of code are left out."""
        self._folders = tuple(f"{folder}{os.sep}" for folder in folders)
        self._apart = tuple(f"{folder}{os.sep}" for folder in apart)
        self._only_data = only_data
        self._read, self._written = set[str](), set[str]()
        self._known, self._num = set[str](), Counter[str]()  # what was looked at, by folder
        self._digests: dict[str, str] = {}  # as each file was when it was read

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Note what this process opens in the block."""
        global _listening, _is_hooked
        if not self._folders:
            yield
            return
        if not _is_hooked:  # a hook stays for ever, and does nothing outside such blocks
            sys.addaudithook(_hear)
            _is_hooked = True
        outer, _listening = _listening, self
        try:
            yield
        finally:
            _listening = outer
            self._keep()

    def take_in(self, path: Any, mode: Any, flags: Any) -> None:
        """Note one opening. What is written, at any time, is no input."""
        if isinstance(path, int) or path is None:
            return
        name = os.path.abspath(os.fsdecode(path))
        if self._is_beside(name):
            reads = mode.startswith("r") and "+" not in mode if mode else not _writes(flags)
            (self._read if reads else self._written).add(name)

    def digests(self) -> tuple[dict[str, str], dict[str, str]]:
        """The digests of the files of code, and of all others, by their paths beside the study. A
        folder of many files is one."""
        earlier = {path: digest for path, digest in _in_memory.items() if self._is_beside(path)}
        code, data = dict[str, str](), dict[str, str]()
        found = earlier | self._digests
        for path, digest in sorted(found.items()):
            name, folder = self._name(path), f"{os.path.dirname(path)}{os.sep}"
            if path in self._written:
                continue
            if path.endswith(".py"):
                code[name] = digest
            elif path == folder or folder not in found:
                data[f"{name}/" if path == folder else name] = digest
        return code, data

    def _keep(self) -> None:
        """Keep the digests of what was read, for this process's later trials too."""
        for path in self._written:
            _in_memory.pop(path, None)
        for path in {_source(path) for path in self._read - self._written} - self._known:
            self._known.add(path)
            if self._counts(path):
                folder = f"{os.path.dirname(path)}{os.sep}"
                self._num[folder] += 1
                is_one_of_many = self._num[folder] > MOST_FILES and not path.endswith(".py")
                self._take(folder if is_one_of_many else path)
        self._read.clear()

    def _take(self, path: str) -> None:
        if path not in self._digests:
            self._digests[path] = _in_memory[path] = digest_of(Path(path))

    def _counts(self, path: str) -> bool:
        is_left_out = self._only_data and path.endswith(".py")
        return not is_left_out and not self._is_strange(path) and os.path.isfile(path)

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
    """Note the data that code of this folder reads while it is loaded: any trial may use them. What
    it imports is found in its text, where imports for the study alone are left out."""
    with Opened([folder], only_data=True).listening():
        yield


def _writes(flags: Any) -> bool:
    return not isinstance(flags, int) or flags & os.O_ACCMODE != os.O_RDONLY


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _listening is not None:
        with contextlib.suppress(Exception):  # whatever happens here, the user's program goes on
            _listening.take_in(*arguments)


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
