"""The mirror's files: whole generations or nothing.

    manifest.json          which files are the mirror now, their sizes and hashes; replaced at once
    trials-7-3f2a.parquet  every trial's run, written anew when one has changed
    epochs-3-91c0.parquet  a segment of many; rows of another generation than their trial's are old
    studies-7-0b1e.parquet every study's run
    seen-7-77d1.json       what tells whether a run has changed

A file is never changed: a new one is written beside it, synced and renamed, and the manifest then
names it. Readers hold the files of the manifest they have read; what no manifest names any more
is removed a while later.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ablate.errors import StoreError

FORMAT = 2  # of the files: a mirror of another is made again
MANIFEST = "manifest.json"
OLD_SECONDS = 120.0  # a file that nobody names is kept for so long, for those still reading it
PATIENCE = 60.0  # to wait for another process that brings the mirror up to date


class Damaged(Exception):
    """The mirror is not what was written."""


@dataclass
class Manifest:
    """What the mirror consists of."""

    generation: int = 0
    trials: str = ""
    studies: str = ""
    seen: str = ""
    epochs: list[str] = field(default_factory=list)  # segments
    rows: dict[str, int] = field(default_factory=dict)  # of each segment
    configs: dict[str, str] = field(default_factory=dict)  # column of a config's field -> type
    numbers: dict[str, str] = field(default_factory=dict)  # found at the end, or a user's own tag
    epoch_numbers: dict[str, str] = field(default_factory=dict)
    seals: dict[str, list] = field(default_factory=dict)  # file -> size, modified (ns), sha256
    format: int = FORMAT

    @property
    def files(self) -> list[str]:
        return [name for name in (self.trials, self.studies, self.seen, *self.epochs) if name]


class Folder:
    """Where a mirror is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def place(self, name: str) -> Path:
        return self.path / name

    def read(self) -> Manifest | None:
        """The mirror as it stands, or None where there is none; `Damaged` if it is not whole."""
        try:
            data = json.loads(self.place(MANIFEST).read_bytes())
            manifest = Manifest(**data)
        except FileNotFoundError:
            if any(self.path.glob("*.parquet")):  # not by us: `forget` has said so already
                raise Damaged(f"{MANIFEST} is missing") from None
            return None
        except (ValueError, TypeError) as error:
            raise Damaged(f"{MANIFEST} cannot be read") from error
        if manifest.format != FORMAT:
            raise Damaged(f"it has format {manifest.format}, this version writes {FORMAT}")
        for name in manifest.files:
            self._check(name, manifest.seals.get(name))
        return manifest

    def _check(self, name: str, seal: list | None) -> None:
        """Size and time of a file say at once that nobody touched it; else its bytes must."""
        try:
            found = self.place(name).stat()
            if seal is None or found.st_size != seal[0]:
                raise Damaged(f"{name} is not as long as it was")
            if found.st_mtime_ns != seal[1] and _sha256(self.place(name)) != seal[2]:
                raise Damaged(f"{name} is not what was written")
        except OSError as error:
            raise Damaged(f"{name} is missing") from error

    def seal(self, manifest: Manifest, name: str) -> None:
        """A file that was written beside its place is whole: name it."""
        place, partial = self.place(name), self.partial(name)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, place)
        found = place.stat()
        manifest.seals[name] = [found.st_size, found.st_mtime_ns, _sha256(place)]

    def partial(self, name: str) -> Path:
        return self.place(f"{name}.partial")

    def write(self, manifest: Manifest) -> None:
        """From here on this is the mirror."""
        manifest.seals = {name: manifest.seals[name] for name in manifest.files}
        partial = self.partial(MANIFEST)
        with partial.open("w") as file:
            json.dump(asdict(manifest), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self.place(MANIFEST))
        self.sweep(manifest)

    def sweep(self, manifest: Manifest) -> None:
        """Remove what nobody can be reading any more."""
        kept = {MANIFEST, "lock", *manifest.files}
        for place in self.path.iterdir():
            with contextlib.suppress(OSError):
                if place.name not in kept and time.time() - place.stat().st_mtime > OLD_SECONDS:
                    place.unlink()

    def forget(self) -> None:
        """No mirror any more; its files go when nobody can be reading them."""
        self.place(MANIFEST).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """One process at a time writes. False where another one did not finish in time."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = self.place("lock").open("a")
        except OSError as error:
            raise StoreError(
                f"the mirror {self.path} cannot be written: {error.strerror or error}. Free some "
                "space, or name another folder with --workspace."
            ) from error
        with file:
            yield _lock(file.fileno())


def _lock(handle: int) -> bool:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        except OSError:  # a file system without locks: nobody can be told apart
            return True


def _sha256(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
