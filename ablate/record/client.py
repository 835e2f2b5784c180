"""MLflow's client, opened on a server or a database: its errors, its pages, its empty database."""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ablate.record import quiet
from ablate.record.places import digest, is_server
from ablate.record.tracking import Away, Refused
from ablate.redaction import redacted
from ablate.store.files import own_temporary, partial_file
from ablate.store.locks import locked

PAGE = 1000
CONNECT_SECONDS = 10  # to wait for a database's host
MEMORY = "file:ablate?mode=memory&cache=shared"
REFUSALS = (  # MLflow's codes of errors that the same request would meet again
    "INVALID_PARAMETER_VALUE",
    "INVALID_STATE",
    "RESOURCE_ALREADY_EXISTS",
    "RESOURCE_DOES_NOT_EXIST",
)


def open_client(uri: str, tracking: Any) -> Any:
    """MLflow's client of a server or a database that answers."""
    with translate_errors(uri), quiet.silent_warnings():
        if not is_server(uri):
            with connected(uri):
                pass
        # By default, the registry is whatever MLFLOW_REGISTRY_URI names.
        return tracking.MlflowClient(uri, registry_uri=uri)


def status_of(uri: str) -> int:
    """The HTTP status of a server's answer to a request that only users with access may send."""
    login = quiet.load("mlflow.utils.credentials").get_default_host_creds(uri)
    ask = quiet.load("mlflow.utils.rest_utils").http_request
    query, how = {"max_results": 1}, {"raise_on_status": False}
    return ask(login, "/api/2.0/mlflow/experiments/search", "GET", params=query, **how).status_code


@contextlib.contextmanager
def connected(uri: str) -> Iterator[Any]:
    """Connect to a database once. MLflow tries ten times, for 100 seconds, before it gives up."""
    sqlalchemy, dialect = quiet.load("sqlalchemy"), uri.partition("://")[0].partition("+")[0]
    limits = {"connect_timeout": CONNECT_SECONDS} if dialect in ("postgresql", "mysql") else {}
    engine = sqlalchemy.create_engine(uri, connect_args=limits)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def read_experiments(client: Any, condition: str | None = None) -> list[Any]:
    """The active experiments of a server, or those that meet a condition."""
    search = client.search_experiments
    return read_pages(
        lambda token: search(filter_string=condition, max_results=PAGE, page_token=token)
    )


def read_pages(search: Callable[[Any], Any]) -> list[Any]:
    """All results of a search that returns one page for a token (None for the first)."""
    return [item for page in pages(search) for item in page]


def pages(search: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield the pages of a search, one at a time."""
    page = search(None)
    yield page
    while page.token:
        page = search(page.token)
        yield page


@contextlib.contextmanager
def translate_errors(uri: str) -> Iterator[None]:
    """Raise the errors of MLflow, its database and the network as `Away` or `Refused`."""
    try:
        yield
    except Exception as error:
        translated = _translate(error, uri)
        if translated is None:
            raise
        raise translated from error


def _translate(error: Exception, uri: str) -> Away | Refused | None:
    """Our error for an error of MLflow, its database or the network; None for any other."""
    mlflow = quiet.load("mlflow.exceptions")
    database = quiet.load("sqlalchemy.exc").SQLAlchemyError
    if not isinstance(error, mlflow.MlflowException | database | OSError):
        return None
    shown = redacted(uri)
    text = redacted(str(error)).strip().split("\n")[0][:300] or repr(error)
    if "out-of-date database schema" in text:
        return Away(
            f"the database {shown} was made by another version of MLflow. Keep a copy of it, then "
            f"run: mlflow db upgrade {shown}"
        )
    if getattr(error, "error_code", None) in REFUSALS:
        return Refused(f"{shown} refused a record: {text}")
    return Away(f"{shown} cannot store records now: {text}")


def server_lock(uri: str) -> contextlib.AbstractContextManager[None]:
    """Lock a server among this user's processes on this host."""
    return locked(own_temporary() / f"{digest(uri)}.lock", remove=True)


def make_database(uri: str) -> None:
    """Make a SQLite file that does not exist, whole or not at all: MLflow cannot resume that."""
    path = Path(quiet.load("sqlalchemy.engine").make_url(uri).database or "")
    if path.exists() and path.stat().st_size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with partial_file(path) as file:
        file.write(empty_database())
        file.flush()
        os.fsync(file.fileno())
        # A link, unlike a rename, replaces no database that another process has just made.
        with contextlib.suppress(FileExistsError):
            os.link(file.name, path)


@functools.cache  # MLflow keeps a connection to each address, and would find no tables here again
def empty_database() -> bytes:
    """MLflow's tables, made in memory: on disk it takes a thousand synced commits."""
    uri = f"sqlite:///{MEMORY}&uri=true"
    client = quiet.load("mlflow.tracking").MlflowClient
    with contextlib.closing(sqlite3.connect(MEMORY, uri=True)) as memory, quiet.silent_warnings():
        client(uri, registry_uri=uri).search_experiments(max_results=1)
        return memory.serialize()
