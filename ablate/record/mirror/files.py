"""The mirror's files: complete generations or nothing.

    manifest.json          the mirror's current files, sizes and hashes; replaced atomically
    trials-7-3f2a.parquet  every trial, rewritten when one has changed
    epochs-3-91c0.parquet  one of many segments; a row is current if its generation is its trial's
    studies-7-0b1e.parquet every study
    arms-7-5d20.parquet    every arm's results; made again for the arms that have changed
    seen-7-77d1.json       what is compared to tell whether a row has changed

A file is never changed: a new one is written, synced and renamed, and then named in the manifest.
Readers use the files of the manifest that they have read; files that no manifest names are removed
some time later.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ablate.errors import StoreError
from ablate.store import checksum
from ablate.store.files import read_regular, replace_synced, sha256, sha256_once, write_whole
from ablate.store.locks import lock

FORMAT = 8  # of the files: a mirror in another format is rebuilt
MANIFEST = "manifest.json"
OLD_SECONDS = 120.0  # files not in the manifest are removed after this time: others may read them
LOCK_SECONDS = 60.0  # to wait for another process that updates the mirror


class Damaged(Exception):
    """The mirror's files differ from what was written."""


@dataclass
class Manifest:
    """The files and columns of a mirror."""

    generation: int = 0
    trials: str = ""
    studies: str = ""
    arms: str = ""
    seen: str = ""
    epochs: list[str] = field(default_factory=list)  # segments
    rows: dict[str, int] = field(default_factory=dict)  # of each segment
    configs: dict[str, str] = field(default_factory=dict)  # config column -> type
    numbers: dict[str, str] = field(default_factory=dict)  # final results -> type
    epoch_numbers: dict[str, str] = field(default_factory=dict)
    seals: dict[str, list] = field(default_factory=dict)  # file -> size, sha256
    format: int = FORMAT

    @property
    def files(self) -> list[str]:
        """The names of all files that the mirror consists of."""
        return [
            name for name in (self.trials, self.studies, self.arms, self.seen, *self.epochs) if name
        ]


class Folder:
    """The folder of a mirror."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def path_to(self, name: str) -> Path:
        """Return the path of a file of the mirror."""
        return self.path / name

    def read(self) -> Manifest | None:
        """The manifest, or None if there is no mirror. Raises `Damaged` if a file is not whole."""
        try:
            data = read_regular(self.path_to(MANIFEST))
            checksum.check(data, checksum.start_of(MANIFEST))
            plain = json.loads(data)
            plain.pop(checksum.FIELD, None)
            manifest = Manifest(**plain)
        except FileNotFoundError:
            if any(self.path.glob("*.parquet")):  # the manifest alone was deleted
                raise Damaged(f"{MANIFEST} is missing") from None
            return None
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise Damaged(f"{MANIFEST} cannot be read ({error})") from error
        if manifest.format != FORMAT:
            raise Damaged(f"it has format {manifest.format}, this version writes {FORMAT}")
        self.check(manifest)
        return manifest

    def check(self, manifest: Manifest, *, again: bool = False) -> None:
        """Raise `Damaged` if a file differs from what was written.

        A process hashes each file once (25 ms for 20,000 trials); `again` hashes them once more.
        """
        for name in manifest.files:
            self._check(name, manifest.seals.get(name), sha256 if again else sha256_once)

    def _check(self, name: str, seal: list | None, hashed: Callable[[Path], str]) -> None:
        """Check a file's size and hash. (Older versions also stored a time, between the two.)"""
        path = self.path_to(name)
        try:
            if seal is None or path.stat().st_size != seal[0]:
                raise Damaged(f"{name} has a different size than when it was written")
            if hashed(path) != seal[-1]:
                raise Damaged(f"{name} differs from what was written")
        except FileNotFoundError as error:
            raise Damaged(f"{name} is missing") from error
        except OSError as error:
            raise Damaged(f"{name} cannot be read: {error.strerror or error}") from error

    def seal(self, manifest: Manifest, name: str) -> None:
        """Move a complete partial file to its final name, and store its hash in the manifest."""
        path = self.path_to(name)
        replace_synced(self.partial(name), path)
        manifest.seals[name] = [path.stat().st_size, sha256(path)]

    def partial(self, name: str) -> Path:
        """Return where a file is written before it takes its name."""
        return self.path_to(f"{name}.partial")

    def write(self, manifest: Manifest, replaced: Iterable[str] = ()) -> None:
        """Make this manifest the current one. `replaced`: the files of the one before."""
        manifest.seals = {name: manifest.seals[name] for name in manifest.files}
        plain = {checksum.FIELD: checksum.BLANK, **asdict(manifest)}
        parts = checksum.pieces(json.dumps(plain).encode(), checksum.start_of(MANIFEST))
        write_whole(self.path_to(MANIFEST), *parts)
        for name in {*replaced} - {*manifest.files}:
            with contextlib.suppress(OSError):
                os.utime(self.path_to(name))  # others may be reading it: it gets old from now on
        self.sweep(manifest)

    def sweep(self, manifest: Manifest) -> None:
        """Remove old files that no process can still be reading."""
        current = {MANIFEST, "lock", *manifest.files}
        for path in self.path.iterdir():
            with contextlib.suppress(OSError):
                if path.name not in current and time.time() - path.stat().st_mtime > OLD_SECONDS:
                    path.unlink()

    def forget(self) -> None:
        """Delete the manifest; `sweep` deletes the files once no process can be reading them."""
        self.path_to(MANIFEST).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Lock the mirror for writing; False if another process did not finish in time."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = self.path_to("lock").open("a")
        except OSError as error:
            raise StoreError(
                f"the mirror {self.path} cannot be written: {error.strerror or error}. Free some "
                "space, or choose another folder with --workspace."
            ) from error
        with file:
            yield lock(file, seconds=LOCK_SECONDS)
