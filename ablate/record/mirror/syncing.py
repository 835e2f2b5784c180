"""Updates the mirror: reads only what has changed since the last time.

    mirror = update_mirror(workspace)

Every query does so first. The source is the workspace's store, or a server that its user names. If
nothing is new in a store, only the stamps of its files are asked for; if a server does not answer,
the mirror stays as it is, and a note gives its date.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.errors import MissingDependency, RecordError, StoreError, needs
from ablate.record.mirror.files import LOCK_SECONDS, MANIFEST, Damaged, Folder, Manifest
from ablate.record.mirror.stored import StoreSource
from ablate.record.mirror.writing import Generation
from ablate.record.places import check_uri, digest
from ablate.redaction import redacted
from ablate.store.workspace import Workspace, running_driver

if TYPE_CHECKING:
    from ablate.record.mirror.server import ServerSource

    Source = ServerSource | StoreSource


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


def source_uri(workspace: Workspace) -> str:
    """Where rows are read from: the server that is named, or the workspace's store. A database of
    SQLite is no server: what is in it was exported from a store."""
    named = workspace.mlflow_uri
    if named is not None and not check_uri(named).startswith("sqlite"):
        return named
    return f"store:{workspace.store.uri}"


def mirror_folder(workspace: Workspace) -> Path:
    """The mirror's folder: one for each source."""
    return workspace.folder / "mirror" / digest(source_uri(workspace))


def open_source(workspace: Workspace) -> Source:
    """Open the store or the server for reading."""
    uri = source_uri(workspace)
    if uri.startswith("store:"):
        return StoreSource(workspace.store, partial(_is_running, workspace))
    from ablate.record.mirror.server import ServerSource

    return ServerSource(uri)


def _is_running(workspace: Workspace, key: str) -> bool:
    return running_driver(workspace, key) is not None


def update_mirror(
    workspace: Workspace,
    source: Callable[[Workspace], Source] | None = None,
    *,
    rebuild: bool = False,
) -> Mirror:
    """Update the mirror of the workspace's records, or rebuild it."""
    duckdb()  # before any work: what is missing is named at once
    folder = Folder(mirror_folder(workspace))
    uri, opened = source_uri(workspace), partial(source or open_source, workspace)
    with folder.locked() as acquired:
        if not acquired:
            return _as_it_is(folder)
        before, notes = _read_manifest(folder, uri, rebuild)
        try:
            mirror = _sync(folder, before, opened)
        except Damaged as damage:
            before, notes = _forgotten(folder, uri, damage)
            mirror = _sync(folder, before, opened)
        except RecordError as error:
            if not before.generation:  # there is no earlier mirror to query
                raise
            return Mirror(folder, before, (*notes, _as_of(folder, str(error))))
    return replace(mirror, notes=(*notes, *mirror.notes))


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


def _sync(folder: Folder, before: Manifest, source: Callable[[], Source]) -> Mirror:
    """Write a new generation if anything has changed. Raises `Damaged` if DuckDB cannot read a file
    that was whole when this process first read it."""
    known = json.loads(folder.path_to(before.seen).read_bytes()) if before.seen else {}
    with contextlib.closing(source()) as reader:
        changed, gone = reader.changes(known)
        if before.generation and not changed and not gone:
            return Mirror(folder, before, tuple(reader.notes))
        db = duckdb().connect(":memory:")
        generation = Generation(folder, before, db, changed | gone, reader.records)
        try:
            num = generation.add(reader.read())
            manifest = generation.finish(json.dumps(reader.seen))
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
        return Mirror(folder, manifest, tuple(reader.notes), num)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
