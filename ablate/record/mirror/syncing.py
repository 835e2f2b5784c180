"""Updates the mirror: reads only what has changed since the last time.

    mirror = update_mirror(workspace)

Every query does so first. If nothing is new, it only reads the marks of all runs; if a server does
not answer, the mirror stays as it is, and a note gives its date.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.errors import MissingDependency, RecordError, StoreError, needs
from ablate.record.mirror.files import LOCK_SECONDS, MANIFEST, Damaged, Folder, Manifest
from ablate.record.mirror.sqlite_source import DatabaseSource
from ablate.record.mirror.stored import StoreSource
from ablate.record.mirror.writing import Generation
from ablate.record.places import check_uri, digest
from ablate.record.tracking import Seen
from ablate.redaction import redacted
from ablate.store.store import Store
from ablate.store.workspace import Workspace

if TYPE_CHECKING:
    from ablate.record.server_source import ServerSource

    Source = DatabaseSource | ServerSource | StoreSource

STORE = "store:"  # in front of a store whose records are read without MLflow


@dataclass(frozen=True)
class Mirror:
    """The files to query, and notes to print about them."""

    folder: Folder
    manifest: Manifest
    notes: tuple[str, ...] = ()
    read: int = 0  # number of runs read by this update


def duckdb() -> Any:
    """Import DuckDB, or raise an error that says how to install it."""
    try:
        return importlib.import_module("duckdb")
    except ModuleNotFoundError as error:
        raise MissingDependency(needs("queries need", "duckdb")) from error


def mirror_folder(workspace: Workspace) -> Path:
    """The mirror's folder: one for each tracking URI."""
    return workspace.folder / "mirror" / digest(workspace.tracking_uri)


def open_source(uri: str) -> Source:
    """Open the database, server or store at a URI for reading."""
    if uri.startswith(STORE):
        return StoreSource(Store(uri.removeprefix(STORE)))
    check_uri(uri)
    if uri.startswith("sqlite:///"):
        return DatabaseSource(Path(uri.removeprefix("sqlite:///")))
    from ablate.record.server_source import ServerSource

    return ServerSource(uri)


def update_mirror(
    workspace: Workspace, source: Callable[[str], Source] = open_source, *, rebuild: bool = False
) -> Mirror:
    """Update the mirror of the workspace's records, or rebuild it."""
    duckdb()  # before any work: what is missing is named at once
    folder = Folder(mirror_folder(workspace))
    uri = workspace.tracking_uri
    with folder.locked() as acquired:
        if not acquired:
            return _as_it_is(folder)
        before, notes = _read_manifest(folder, uri, rebuild)
        try:
            after, num = _sync(folder, before, source, uri)
        except Damaged as damage:
            before, notes = _forgotten(folder, uri, damage)
            after, num = _sync(folder, before, source, uri)
        except RecordError as error:
            if not before.generation:  # there is no earlier mirror to query
                raise
            return Mirror(folder, before, (*notes, _as_of(folder, str(error))))
    return Mirror(folder, after, tuple(notes), num)


def _as_it_is(folder: Folder) -> Mirror:
    """The mirror without an update, because another process has not finished its own."""
    why = f"another process has held the update lock for more than {LOCK_SECONDS:.0f} s"
    try:
        manifest = folder.read()
    except Damaged:
        manifest = None
    if manifest is None:
        raise RecordError(f"the mirror {folder.path} cannot be read yet: {why}. Try again later.")
    return Mirror(folder, manifest, (_as_of(folder, why),))


def _read_manifest(folder: Folder, uri: str, rebuild: bool) -> tuple[Manifest, list[str]]:
    """The current manifest, or an empty one with a note why the mirror is rebuilt."""
    try:
        manifest = None if rebuild else folder.read()
    except Damaged as damage:
        return _forgotten(folder, uri, damage)
    if manifest is not None:
        return manifest, []
    return Manifest(), [f"the mirror is missing (new or deleted): built from {redacted(uri)}."]


def _forgotten(folder: Folder, uri: str, damage: Damaged) -> tuple[Manifest, list[str]]:
    folder.forget()
    return Manifest(), [f"the mirror was damaged ({damage}): rebuilt from {redacted(uri)}."]


def _as_of(folder: Folder, why: str) -> str:
    try:
        written = folder.path_to(MANIFEST).stat().st_mtime
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(written))
    except OSError:
        when = "an unknown time"
    return f"results are from the mirror as of {when}: {why}"


def _sync(
    folder: Folder, before: Manifest, source: Callable[[str], Source], uri: str
) -> tuple[Manifest, int]:
    """Write a new generation if anything has changed; also return the number of runs read. Raises
    `Damaged` if DuckDB cannot read a file that was whole when this process first read it."""
    known = _known(folder, before)
    with contextlib.closing(source(uri)) as reader:
        changed, gone = reader.changes(known)
        if before.generation and not changed and not gone:
            return before, 0
        db = duckdb().connect(":memory:")
        generation = Generation(folder, before, db, {*changed, *gone})
        seen = {run_id: now for run_id, now in known.items() if run_id not in gone} | changed
        plain = {run_id: [now.start, now.signature] for run_id, now in seen.items()}
        try:
            generation.add(reader.read(list(changed)))
            manifest = generation.finish(json.dumps(plain))
        except (OSError, duckdb().Error) as error:
            folder.check(before, again=True)  # for a damaged file, DuckDB has the same errors
            if not isinstance(error, OSError | duckdb().IOException):
                raise
            raise StoreError(
                f"the mirror {folder.path} cannot be updated: {_first_line(error)}. Free some "
                "space, or choose another folder with --workspace."
            ) from error
        finally:
            db.close()
    return manifest, len(changed)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _known(folder: Folder, before: Manifest) -> dict[str, Seen]:
    if not before.seen:
        return {}
    plain = json.loads(folder.path_to(before.seen).read_bytes())
    return {run_id: Seen(*entry) for run_id, entry in plain.items()}
