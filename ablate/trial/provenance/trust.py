"""Which files of code this user trusts: those that they ran here, known by their contents.

A journal names the files of code that its trial needs, and whoever can write to a shared store can
write any name there. So a file is run only if a command of this user named it, or a study that they
ran. The hashes of those contents are kept in the user's own folder for state, never in a workspace
or a store. A worker is given its files by the driver that the user started, and keeps no list.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from ablate.errors import StoreError, TrialError
from ablate.store.files import private_folder

_accepted: set[str] = set()  # by this process alone
_places: set[str] = set()  # paths of the files that were accepted


def accept(files: Iterable[str | Path]) -> dict[str, str]:
    """Trust these files, where they exist, in this process: path -> hash of its contents."""
    present = [Path(file) for file in files if Path(file).is_file()]
    hashes = {str(file.resolve()): _hash(file.read_bytes()) for file in present}
    _accepted.update(hashes.values())
    _places.update(hashes)
    return hashes


def remember(files: Iterable[str | Path]) -> None:
    """Trust these files from now on. Where nothing can be written, only in this process."""
    for file, name in accept(files).items():
        with contextlib.suppress(OSError, RuntimeError, StoreError):
            known = private_folder(_folder()) / name
            paths = known.read_text().splitlines() if known.is_file() else []
            known.write_text("\n".join(dict.fromkeys([*paths, file])) + "\n")


def checked(file: Path) -> bytes:
    """The contents of a file of code, if they are trusted."""
    # What is hashed is what the caller runs: the file may change between two readings.
    source = file.read_bytes()
    name = _hash(source)
    if name in _accepted or _is_remembered(name):
        return source
    raise TrialError(
        f"{file} is code that a record names, and nothing that you ran on this machine contained "
        f"it (sha256 {name[:12]}). Whoever can write to the store can name any file there, so it "
        "was not run. Read it first; then run its study yourself (ablate study FILE), or repeat "
        "this command with --trust, which also remembers it."
    )


def is_own_place(file: Path) -> bool:
    """Return whether this user ran the file from this very path, so that the modules beside it are
    the user's too: somebody may have put a copy of a trusted file beside modules of another kind.
    """
    path = str(file.resolve())
    with contextlib.suppress(OSError, RuntimeError, StoreError):
        known = _folder() / _hash(file.read_bytes())
        if _is_remembered(known.name) and path in known.read_text().splitlines():
            return True
    return path in _places


def _is_remembered(name: str) -> bool:
    try:
        folder = _folder()
        return folder.is_dir() and (private_folder(folder) / name).is_file()
    except (OSError, RuntimeError):  # not readable; a user without a home folder
        return False


def _folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "ablate" / "trusted"


def _hash(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()
