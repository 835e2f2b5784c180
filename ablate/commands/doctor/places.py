"""Checks of `ablate doctor` of workspace, store, tracking server, databases and Ray."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from ablate.commands.doctor import database as doctor_database
from ablate.commands.doctor.finding import FAIL, OK, WARN, Finding
from ablate.commands.doctor.machine import existing
from ablate.record import quiet
from ablate.record.client import status_of
from ablate.record.places import check_uri, is_server
from ablate.store import checksum
from ablate.store.files import read_regular, write_whole
from ablate.store.store import Store
from ablate.store.workspace import Workspace

NETWORK_SECONDS = 8.0
CHECK_SECONDS = 2.0  # of a database of gigabytes, a check reads all
SLOW_MS = 100.0  # for a synced write; a trial makes about ten
DRIVERS = {"postgresql": ("psycopg2", "psycopg"), "mysql": ("pymysql", "MySQLdb")}
PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
OTHER_FOLDER = "Choose another folder with --workspace (or ABLATE_WORKSPACE)."


def folder(workspace: Workspace) -> Iterator[Finding]:
    """Check that the workspace can be written, and how fast."""
    path = workspace.folder
    if path.exists() and not path.is_dir():
        yield Finding(FAIL, f"{path} is not a folder", OTHER_FOLDER)
    elif path.exists():
        yield _write_durably(path)
    elif (parent := existing(path)).is_dir() and os.access(parent, os.W_OK):
        yield Finding(OK, f"{path} will be created by the first study")
    else:
        yield Finding(FAIL, f"{path} cannot be created: {parent} is not writable", OTHER_FOLDER)


def _write_durably(path: Path) -> Finding:
    probe = path / f".doctor-{os.getpid()}"
    start = time.perf_counter()
    try:
        write_whole(probe, b"x" * 4096)
        probe.unlink()
    except OSError as error:
        return Finding(FAIL, f"{path} cannot be written: {error.strerror}", OTHER_FOLDER)
    milliseconds = 1000 * (time.perf_counter() - start)
    speed = f"{path} is writable; a durable write takes {milliseconds:.1f} ms"
    if milliseconds > SLOW_MS:
        return Finding(WARN, speed, "A local disk would be faster for very short trials.")
    return Finding(OK, speed)


def store(workspace: Workspace) -> Iterator[Finding]:
    """Check that trials can be written, in the workspace or at the given URI."""
    uri = workspace.store_uri
    if uri is None:
        yield Finding(OK, "in the workspace")
        return
    probe = f"doctor-{os.getpid()}/probe"
    try:
        opened = Store(uri)
        opened.write(probe, b"probe")
        read = opened.read(probe)
        opened.delete(probe.partition("/")[0])
    except Exception as error:
        yield Finding(FAIL, str(error), _store_remedy(uri))
        return
    if read != b"probe":
        yield Finding(FAIL, f"{uri} does not return what was written", _store_remedy(uri))
    else:
        yield Finding(OK, f"{uri} can be written and read")


def _store_remedy(uri: str) -> str:
    if "://" not in uri or uri.startswith("file:"):
        return "Choose another location with --store (or ABLATE_STORE)."
    return "Check the URI, and the credentials that its kind of filesystem reads."


def mlflow(workspace: Workspace) -> Iterator[Finding]:
    """Check that the tracking server answers, or that the database can be opened."""
    uri = check_uri(workspace.tracking_uri)
    if not is_server(uri):
        yield _database(uri, "Move it away: `ablate sync` rebuilds it from the store.")
        return
    try:
        code = status_of(uri)
    except quiet.load("mlflow.exceptions").MlflowException as error:
        later = "Training continues without it; `ablate sync` delivers what it missed."
        yield Finding(FAIL, f"{uri} does not answer: {_first_cause(error)}", later, 6)
        return
    if code == HTTPStatus.OK:
        yield Finding(OK, f"{uri} answers")
    else:
        yield Finding(FAIL, f"{uri} answers {code}", _http_remedy(code), 6)


def _first_cause(error: BaseException) -> BaseException:
    cause = error.__cause__ or error.__context__
    return _first_cause(cause) if cause else error


def _http_remedy(code: int) -> str:
    if code == 401:
        return "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or the token."
    if code == 403:
        return "Add this host, with its port, to the server's --allowed-hosts."
    return "Is it an MLflow server, and is the path right?"


def searches(workspace: Workspace) -> Iterator[Finding]:
    """Check that Optuna's records can be read."""
    remedy = "Move it away: searches start from scratch, and reuse trials that are done."
    url = workspace.searches
    if not url.startswith("folder:"):
        yield _database(url, remedy)
        return
    files = sorted(Path(url.removeprefix("folder:")).glob("*.log"))
    damaged = [file for file in files if not _is_log(file)]
    for file in damaged:
        yield Finding(FAIL, f"{file} is damaged", remedy, 6)
    if not damaged:
        yield Finding(OK, f"in the workspace, for {len(files)} studies" if files else "none yet")


def _is_log(file: Path) -> bool:
    """Return whether every line is undamaged; after a crash, the last one may be cut off."""
    data, total = read_regular(file), checksum.start_of(file.stem)
    try:
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            total = checksum.check_line(line, total)
            if not isinstance(json.loads(line), dict):
                return False
    except (ValueError, RecursionError):
        return False
    return True


def _database(url: str, remedy: str) -> Finding:
    kind = urlsplit(url).scheme.split("+")[0]
    if kind == "sqlite":
        return _sqlite(Path(unquote(urlsplit(url).path)[1:]), remedy)
    if kind not in PORTS:
        allowed = f"Expected one of: sqlite, {', '.join(PORTS)}."
        return Finding(FAIL, f"{url} is not a database URL", allowed, 6)
    drivers = DRIVERS.get(kind, ())
    if drivers and "+" not in urlsplit(url).scheme and not any(map(find_spec, drivers)):
        missing = f"{url} needs a driver for {kind}"
        return Finding(FAIL, missing, f"pip install {drivers[0]}", 7)
    if kind == "postgresql" and doctor_database.driver() is not None:
        return doctor_database.postgres(url)
    return _connect(url, PORTS[kind], "Is the database up, and is this its host?", 6)


def _sqlite(file: Path, remedy: str) -> Finding:
    if not file.exists():
        return Finding(OK, f"{file} will be created by the first study that needs it")
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=NETWORK_SECONDS)
        ) as db:
            result = _quick_check(db)
    except sqlite3.OperationalError as error:  # locked, or not readable
        return Finding(FAIL, f"{file}: {error}", "Does another program use it?", 6)
    except sqlite3.DatabaseError as error:
        return Finding(FAIL, f"{file}: {error}", remedy, 6)
    if result not in ("ok", None):
        return Finding(FAIL, f"{file} is damaged: {result}", remedy, 6)
    of_it = "" if result else f", of which {CHECK_SECONDS:g} s of checking found nothing wrong"
    return Finding(OK, f"{file} can be read ({file.stat().st_size / 1e6:.1f} MB{of_it})")


def _quick_check(db: sqlite3.Connection) -> str | None:
    """What SQLite's own check says; None if it is not through after CHECK_SECONDS."""
    timer = threading.Timer(CHECK_SECONDS, db.interrupt)
    timer.start()
    try:
        return db.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError as error:
        if str(error) != "interrupted":
            raise
        return None
    finally:
        timer.cancel()
        timer.join()


def ray(workspace: Workspace) -> Iterator[Finding]:
    """Check that the cluster of RAY_ADDRESS answers."""
    address = os.environ.get("RAY_ADDRESS")
    if not address or address == "local":
        yield Finding(OK, "no cluster set: a study starts Ray on this machine")
    elif address.startswith("ray://"):
        yield ray_client("RAY_ADDRESS", address)
    elif address == "auto":
        yield Finding(OK, "the Ray that runs on this machine (RAY_ADDRESS=auto)")
    else:
        remedy = "Is the cluster up? Without one, unset RAY_ADDRESS; without Ray: --local."
        yield _connect(f"tcp://{address}", 6379, remedy, 5)


def ray_client(name: str, address: str) -> Finding:
    """Return the finding for an address that no study accepts."""
    remedy = "Use the address of the cluster itself (HOST:6379), from a machine inside it."
    return Finding(FAIL, f"{name} is an address of Ray Client: {address}", remedy, 5)


def _connect(url: str, port: int, remedy: str, exit_code: int) -> Finding:
    """Check that a server listens at the URL."""
    try:
        address = (urlsplit(url).hostname or "", urlsplit(url).port or port)
        socket.create_connection(address, timeout=NETWORK_SECONDS).close()
    except (OSError, ValueError) as error:
        return Finding(FAIL, f"{url} does not answer: {error}", remedy, exit_code)
    return Finding(OK, f"{url} answers")
