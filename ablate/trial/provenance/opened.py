"""The files beside a study that a trial opens to read, as Python's audit hooks tell.

Only files that this process opens by Python's own means are noticed: no child process's, and none
that a library opens in C.
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
from ablate.trial.provenance.imported import LIBRARIES

WHOLE = 64_000_000  # bytes of the largest file that is hashed whole
PIECE = 1_000_000  # bytes at both ends of a larger one
MOST_FILES = 200  # of a folder, that are recorded one by one

_listening: Opened | None = None
_is_hooked = False


class Opened:
    """Notes what is opened to be read while a trial's own code runs."""

    def __init__(self, folders: Collection[Path], apart: Collection[Path]) -> None:
        """`folders`: where such files lie; `apart`: what is ablate's own in there."""
        self._folders = tuple(f"{folder}{os.sep}" for folder in folders)
        self._apart = tuple(f"{folder}{os.sep}" for folder in apart)
        self._read, self._written = set[str](), set[str]()

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
        _listening = self
        try:
            yield
        finally:
            _listening = None

    def take_in(self, path: Any, mode: Any, flags: Any) -> None:
        """Note one opening. What is written, at any time, is no input."""
        if isinstance(path, int) or path is None:
            return
        name = os.path.abspath(os.fsdecode(path))
        if name.startswith(self._folders) and not name.startswith(self._apart):
            reads = mode.startswith("r") and "+" not in mode if mode else not _writes(flags)
            (self._read if reads else self._written).add(name)

    def digests(self) -> tuple[dict[str, str], dict[str, str]]:
        """The digests of the files of code, and of all others, by their paths beside the study."""
        code, data = dict[str, str](), dict[str, str]()
        files = {_source(path) for path in self._read - self._written}
        named = {path: name for path in files if (name := self._name(path))}
        full = Counter(os.path.dirname(path) for path in named)
        for path, name in sorted(named.items()):
            folder = os.path.dirname(path)
            if path.endswith(".py"):
                code[name] = digest_of(Path(path))
            elif full[folder] > MOST_FILES:
                data[f"{os.path.dirname(name)}/"] = digest_of(Path(folder))
            else:
                data[name] = digest_of(Path(path))
        return code, data

    def _name(self, path: str) -> str | None:
        """The path beside the study; None for what is hidden, of a library, or no file by now."""
        root = max((each for each in self._folders if path.startswith(each)), key=len)
        name = Path(path[len(root) :])
        strange = any(part.startswith(".") or part in LIBRARIES for part in name.parts)
        return None if strange or not os.path.isfile(path) else name.as_posix()


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
