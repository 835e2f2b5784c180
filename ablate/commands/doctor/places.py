"""Checks of `ablate doctor` of the places of a study: what it writes to, and what it has there."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from ablate.commands.doctor.finding import FAIL, OK, Finding, first_cause
from ablate.commands.doctor.machine import existing
from ablate.config.plugins import plugins
from ablate.errors import RecordError, StoreError
from ablate.record import quiet
from ablate.record.client import connected, status_of
from ablate.record.places import check_uri, is_server
from ablate.store import glance, study_record
from ablate.store.files import write_whole
from ablate.store.store import Store
from ablate.store.workspace import Workspace

CHECK_SECONDS = 2.0  # of a database of gigabytes, a check reads all
# 2 MB in a temporary table, which ends with the transaction.
FILL = """
create temporary table ablate_doctor on commit drop as
select repeat(md5(number::text), 32) from generate_series(1, 2000) as number
"""
MORE_CONNECTIONS = "Raise its max_connections, or close some; drivers wait until then."
PASSWORD = "Set PGPASSWORD to the password of the user that the URL names."
REMEDIES = {  # by words of the database
    "too many": MORE_CONNECTIONS,
    "slots are reserved": MORE_CONNECTIONS,
    "No space left": "Give its volume more space, or delete what is old; drivers wait until then.",
    "password authentication": PASSWORD,
    "no password": PASSWORD,
    "": "Is the database up, and is this its host?",  # for any other words
}
ANSWERS = {
    401: "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or the token.",
    403: "Add this host, with its port, to the server's --allowed-hosts.",
}


def folder(workspace: Workspace) -> Iterator[Finding]:
    """Whether the workspace can be written."""
    path, probe = workspace.folder, workspace.folder / f".doctor-{os.getpid()}"
    if path.exists():
        write_whole(probe, b"probe")
        probe.unlink()
        yield Finding(OK, f"{path} is writable")
    elif (parent := existing(path)).is_dir() and os.access(parent, os.W_OK):
        yield Finding(OK, f"{path} will be created by the first study")
    else:
        # `Check` shows the remedy of another folder for such an error.
        raise PermissionError(f"{path} cannot be created: {parent} is not writable")


def store(workspace: Workspace) -> Iterator[Finding]:
    """Whether trials can be written, in the workspace or at the given URI."""
    uri, probe = workspace.store_uri, f"doctor-{os.getpid()}/probe"
    if uri is None:
        yield Finding(OK, "in the workspace")
        return
    opened = Store(uri)
    opened.write(probe, b"probe")
    read = opened.read(probe)
    opened.delete(probe.partition("/")[0])  # the folder, with the probe in it
    if read != b"probe":
        raise StoreError(
            f"{uri} does not return what was written. Choose another store with --store (or "
            "ABLATE_STORE)."
        )
    yield Finding(OK, f"{uri} can be written and read")


def mlflow(workspace: Workspace) -> Iterator[Finding]:
    """Whether the tracking server answers, or the database can be opened."""
    uri = check_uri(workspace.tracking_uri)
    if not is_server(uri):
        yield database(uri, "Move it away: `ablate sync` rebuilds it from the store.")
        return
    try:
        code = status_of(uri)
    except quiet.load("mlflow.exceptions").MlflowException as error:
        raise RecordError(
            f"{uri} does not answer: {first_cause(error)}. Training continues without it; `ablate "
            "sync` delivers what it missed."
        ) from error
    if code == HTTPStatus.OK:
        yield Finding(OK, f"{uri} answers")
    else:
        remedy = ANSWERS.get(code, "Is it an MLflow server, and is the path right?")
        yield Finding(FAIL, f"{uri} answers {code}", remedy, 6)


def searches(workspace: Workspace) -> Iterator[Finding]:
    """Whether the records of searches can be read."""
    url = workspace.searches
    if not url.startswith("folder:"):
        remedy = "Move it away: searches start from scratch, and reuse trials that are done."
        yield database(check_uri(url), remedy)
        return
    files = sorted(Path(url.removeprefix("folder:")).glob("*.log"))
    for file in files:
        from ablate.tune.search import log  # imports Optuna

        log.check(file)
    yield Finding(OK, f"in the workspace, for {len(files)} studies" if files else "none yet")


def database(url: str, if_damaged: str) -> Finding:
    """Whether a database can be read; for Postgres, also whether it can be written."""
    try:
        if url.startswith("sqlite"):
            return _sqlite(Path(unquote(urlsplit(url).path)[1:]), if_damaged)
        with connected(url) as connection:
            if url.startswith("postgres"):  # only writing shows that the disk is full
                connection.exec_driver_sql("set statement_timeout = '8s'")
                connection.exec_driver_sql(FILL)
                connection.rollback()
    except sqlite3.Error as error:
        in_use = isinstance(error, sqlite3.OperationalError)  # locked, or not readable
        remedy = "Does another program use it?" if in_use else if_damaged
        return Finding(FAIL, f"{url}: {error}", remedy, 6)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        said = " ".join(str(first_cause(error)).split())
        remedy = next(remedy for words, remedy in REMEDIES.items() if words in said)
        return Finding(FAIL, f"{url}: {said}", remedy, 6)
    return Finding(OK, f"{url} answers")


def _sqlite(file: Path, if_damaged: str) -> Finding:
    """The result of SQLite's own check, which is stopped early in a database of gigabytes."""
    if not file.exists():
        return Finding(OK, f"{file} will be created by the first study that needs it")
    part, end = "", time.monotonic() + CHECK_SECONDS
    # Read only, since a check changes nothing.
    with contextlib.closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as db:
        # Every 1,000 instructions of SQLite's machine; True interrupts the check.
        db.set_progress_handler(lambda: time.monotonic() > end, 1000)
        try:
            result = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.OperationalError as error:
            if str(error) != "interrupted":
                raise
            result = "ok"
            part = f", of which {CHECK_SECONDS:g} s of checking found nothing wrong"
    if result != "ok":
        return Finding(FAIL, f"{file} is damaged: {result}", if_damaged, 6)
    return Finding(OK, f"{file} can be read ({file.stat().st_size / 1e6:.1f} MB{part})")


def corpora(workspace: Workspace) -> Iterator[Finding]:
    """The corpora that are here, and those that differ from the published texts."""
    listed = [corpus for plugin in plugins() for corpus in plugin.corpora(workspace.data)]
    damaged = [corpus.name for corpus in listed if corpus.state == "damaged"]
    for name in damaged:
        again = f"`ablate data get {name}` fetches it again."
        yield Finding(FAIL, f"{name} is not the published text", again, 3)
    good = (f"{corpus.name} {corpus.state}" for corpus in listed if corpus.name not in damaged)
    yield Finding(OK, ", ".join(good))


def studies(workspace: Workspace) -> Iterator[Finding]:
    """Whether the records of studies, and the journals of their trials, can be read."""
    keys = study_record.names(workspace.store)
    for key in keys:
        record = study_record.read(workspace.store, key)
        glance.read_all(workspace.store, record.trial_ids())
    yield Finding(OK, f"{len(keys)} can be read; `ablate status` counts their trials")
