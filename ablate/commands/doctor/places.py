"""Checks of `ablate doctor` of the places of a study: what it writes to."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from ablate.commands.doctor.finding import FAIL, OK, WARN, Finding, first_cause
from ablate.errors import RecordError
from ablate.record import quiet
from ablate.record.client import connected, status_of
from ablate.record.places import check_uri, is_server
from ablate.store.files import write_whole
from ablate.store.store import Store
from ablate.store.workspace import Workspace

LITTLE_GB = 5.0
ROOM = "Free some for checkpoints, or choose another folder with --workspace."
ANSWERS = {
    401: "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or the token.",
    403: "Add this host, with its port, to the server's --allowed-hosts.",
}


def folder(workspace: Workspace) -> Iterator[Finding]:
    """Whether the workspace can be written, and has room."""
    path, probe = workspace.folder, workspace.folder / f".doctor-{os.getpid()}"
    parent = next(each for each in (path, *path.parents) if each.exists())
    if path.exists():
        write_whole(probe, b"probe")
        probe.unlink()
        found = f"{path} is writable"
    elif parent.is_dir() and os.access(parent, os.W_OK):
        found = f"{path} will be created by the first study"
    else:
        # `Check` shows the remedy of another folder for such an error.
        raise PermissionError(f"{path} cannot be created: {parent} is not writable")
    free = shutil.disk_usage(parent).free / 1e9
    is_little = free < LITTLE_GB
    yield Finding(WARN if is_little else OK, f"{found}, {free:.1f} GB free", ROOM * is_little)


def store(workspace: Workspace) -> Iterator[Finding]:
    """Whether trials can be written, in the workspace or at the given URI."""
    uri, probe = workspace.store_uri, f"doctor-{os.getpid()}/probe"
    if uri is None:
        yield Finding(OK, "in the workspace")
        return
    opened = Store(uri)
    opened.write(probe, b"probe")
    opened.delete(probe.partition("/")[0])  # the folder, with the probe in it
    yield Finding(OK, f"{uri} can be written")


def mlflow(workspace: Workspace) -> Iterator[Finding]:
    """Whether the tracking server answers, or the database can be opened."""
    uri = check_uri(workspace.tracking_uri)
    if not is_server(uri):
        yield database(uri, "Move it away: `ablate report sync` rebuilds it from the store.")
        return
    try:
        code = status_of(uri)
    except quiet.load("mlflow.exceptions").MlflowException as error:
        raise RecordError(
            f"{uri} does not answer: {first_cause(error)}. Training continues without it; `ablate "
            "report sync` delivers what it missed."
        ) from error
    if code == HTTPStatus.OK:
        yield Finding(OK, f"{uri} answers")
    else:
        remedy = ANSWERS.get(code, "Is it an MLflow server, and is the path right?")
        yield Finding(FAIL, f"{uri} answers {code}", remedy, 6)


def searches(workspace: Workspace) -> Iterator[Finding]:
    """Whether the database of the searches answers."""
    url = workspace.searches
    if url.startswith("folder:"):
        yield Finding(OK, "in the workspace")
    else:
        remedy = "Move it away: searches start from scratch, and reuse trials that are done."
        yield database(check_uri(url), remedy)


def database(url: str, if_damaged: str) -> Finding:
    """Whether a database answers."""
    if url.startswith("sqlite"):
        return _sqlite(Path(unquote(urlsplit(url).path)[1:]), if_damaged)
    try:
        with connected(url):
            return Finding(OK, f"{url} answers")
    except ModuleNotFoundError:
        raise
    except Exception as error:
        remedy = "Is the database up, has it room, and is this its host and its user's password?"
        return Finding(FAIL, f"{url}: {first_cause(error)}", remedy, 6)


def _sqlite(file: Path, if_damaged: str) -> Finding:
    if not file.exists():
        return Finding(OK, f"{file} will be created by the first study that needs it")
    try:  # read only, since a check changes nothing
        uri = f"file:{quote(str(file))}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as db:
            db.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError as error:  # locked, or not readable
        return Finding(FAIL, f"{file}: {error}", "Does another program use it?", 6)
    except sqlite3.Error as error:
        return Finding(FAIL, f"{file}: {error}", if_damaged, 6)
    return Finding(OK, f"{file} can be read ({file.stat().st_size / 1e6:.1f} MB)")
