"""Files that settings name: found next to the study, and identified by what they contain.

    words: str = setting("words.txt", doc="one word a line", file=True)

A trial's id hashes the contents of the file (or of all files of the folder), never its path.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from ablate.errors import ConfigError, nearest


def locate(path: str, folder: Path) -> str | None:
    """Return the absolute path of a file or folder; a relative one is sought in `folder` first."""
    given = Path(path).expanduser()
    existing = (place for place in (folder / given, given) if place.exists())
    return next((str(place.resolve()) for place in existing), None)


def missing(path: str, folder: Path, where: str) -> str:
    """Compose the message for a file that does not exist."""
    match = nearest(path, [other.name for other in folder.glob("*")])
    hint = f" Did you mean '{match}'?" if match else ""
    return f"{where}: the file '{path}' does not exist in {folder.resolve()}.{hint}"


def digest_of_contents(path: str) -> str:
    """A digest of a file, or of the names and contents of a folder's files."""
    files = files_of(path)
    if not files:
        raise ConfigError(f"{path}: this file does not exist, or the folder has no files.")
    if [*files] == [""]:
        return _digest(*_state(files[""]))
    parts = [f"{name}\0{_digest(*_state(file))}" for name, file in files.items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def files_of(path: str) -> dict[str, Path]:
    """A folder's files by their path in it; a file alone is called ""."""
    root = Path(path)
    if root.is_file():
        return {"": root}
    files = (file for file in sorted(root.rglob("*")) if file.is_file())
    return {file.relative_to(root).as_posix(): file for file in files}


def _state(file: Path) -> tuple[str, int, int]:
    """What changes when a file is written."""
    known = file.stat()
    return str(file), known.st_mtime_ns, known.st_size


@functools.lru_cache(maxsize=4096)
def _digest(file: str, *_: int) -> str:
    """Read each file once, unless it is written again: every trial of a plan asks."""
    with Path(file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
