"""The mirror brought up to date: what has changed since the last time is read, and only that.

    with up_to_date(workspace) as mirror: ...

Every question does so first. With nothing new it costs a look at the marks of all runs; a server
that does not answer leaves the mirror as it is, and the answer says from when.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablate.errors import MissingDependency, RecordError
from ablate.mirror.database import DatabaseSource
from ablate.mirror.files import MANIFEST, Damaged, Folder, Manifest
from ablate.mirror.writing import Generation
from ablate.record.places import check_uri, digest, redacted
from ablate.record.recorded import Seen, Source
from ablate.workspace import Workspace


@dataclass(frozen=True)
class Mirror:
    """The files that answer a question, and what is to be said of them."""

    folder: Folder
    manifest: Manifest
    notes: tuple[str, ...] = ()
    read: int = 0  # runs, this time
    columns: Mapping[str, str] = field(default_factory=dict)


def duckdb() -> Any:
    """DuckDB, or how to get it."""
    try:
        return importlib.import_module("duckdb")
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "questions need the package duckdb, which is not installed. "
            "Install it with: pip install 'ablate[study]'."
        ) from error


def mirror_folder(workspace: Workspace) -> Path:
    """One for each place of records."""
    return workspace.folder / "mirror" / digest(workspace.tracking_uri)


def open_source(uri: str) -> Source:
    """Where the records at a URI are read."""
    check_uri(uri)
    if uri.startswith("sqlite:///"):
        return DatabaseSource(Path(uri.removeprefix("sqlite:///")))
    from ablate.record.server_source import ServerSource

    return ServerSource(uri)


def up_to_date(
    workspace: Workspace, source: Callable[[str], Source] = open_source, *, afresh: bool = False
) -> Mirror:
    """The mirror of the workspace's records as they are now; `afresh` makes it again."""
    duckdb()
    folder = Folder(mirror_folder(workspace))
    uri = workspace.tracking_uri
    with folder.locked() as ours:
        before, notes = _found(folder, uri, afresh)
        if not ours:
            why = "another process has been bringing it up to date for long"
            return Mirror(folder, before, (*notes, _as_of(folder, why)))
        try:
            after, num = _synced(folder, before, source, uri)
        except RecordError as error:
            if not before.generation:
                raise
            return Mirror(folder, before, (*notes, _as_of(folder, str(error))))
    return Mirror(folder, after, tuple(notes), num)


def _found(folder: Folder, uri: str, afresh: bool) -> tuple[Manifest, list[str]]:
    """The mirror as it was left; where that is no good, none, and why."""
    try:
        manifest = None if afresh else folder.read()
    except Damaged as damage:
        folder.forget()
        return Manifest(), [f"the mirror was damaged ({damage}): rebuilt from {redacted(uri)}."]
    if manifest is not None:
        return manifest, []
    return Manifest(), [f"the mirror is not there or was deleted: built from {redacted(uri)}."]


def _as_of(folder: Folder, why: str) -> str:
    try:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(_written(folder)))
    except OSError:
        when = "an unknown time"
    return f"answered from the mirror as of {when}: {why}"


def _written(folder: Folder) -> float:
    return folder.place(MANIFEST).stat().st_mtime


def _synced(
    folder: Folder, before: Manifest, source: Callable[[str], Source], uri: str
) -> tuple[Manifest, int]:
    """One more generation where anything has changed, and how many runs were read for it."""
    known = _known(folder, before)
    reader = source(uri)
    try:
        changed, gone = reader.changes(known)
        if before.generation and not changed and not gone:
            return before, 0
        db = duckdb().connect(":memory:")
        generation = Generation(folder, before, db, {*changed, *gone})
        generation.add(reader.read(list(changed)))
        seen = {run_id: now for run_id, now in known.items() if run_id not in gone} | changed
        plain = {run_id: [now.start, now.signature] for run_id, now in seen.items()}
        manifest = generation.finish(json.dumps(plain))
        db.close()
    finally:
        reader.close()
    return manifest, len(changed)


def _known(folder: Folder, before: Manifest) -> dict[str, Seen]:
    if not before.seen:
        return {}
    plain = json.loads(folder.place(before.seen).read_bytes())
    return {run_id: Seen(*entry) for run_id, entry in plain.items()}
