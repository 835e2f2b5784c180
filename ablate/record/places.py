"""Locations of records: the workspace's database or any MLflow server; the UI that shows them."""

from __future__ import annotations

import hashlib
import re
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ablate.errors import RecordError
from ablate.redaction import redacted

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
SERVERS = ("http", "https")


def check_uri(uri: str) -> str:
    """Return the URI if its scheme can hold records; nothing is connected to."""
    scheme = uri.partition("://")[0].lower().split("+")[0]
    if scheme in SERVERS and _names_host(uri):
        return uri
    if scheme in DATABASES and uri.partition("://")[2].strip("/"):
        return uri
    raise RecordError(
        f"records cannot be stored in '{redacted(uri)}'. Expected an MLflow server "
        "(http://host:5000) or a database (sqlite:////folder/mlflow.db, "
        "postgresql://user@host/name). MLflow's folders of files (./mlruns) are not supported. "
        "Without --mlflow, records go to mlflow.db in the workspace."
    )


def _names_host(uri: str) -> bool:
    """Return whether the URI has a host and, if any, a valid port."""
    try:
        return bool(urlsplit(uri).hostname) and urlsplit(uri).port != 0
    except ValueError:  # a bracket without its pair, or a port that is no number or too large
        return False


def is_server(uri: str) -> bool:
    """Return whether a URI leads to a server, and not to a database."""
    return uri.partition("://")[0].lower() in SERVERS


def local_folder(artifact_uri: str) -> Path | None:
    """The folder of a local artifact URI, None for any other."""
    parts = urlsplit(artifact_uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(artifact_uri) if parts.scheme == "" else None


def digest(uri: str) -> str:
    """A short name for a server, under which the store notes what was delivered to it."""
    return hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:12]


def ui_command(uri: str, artifacts: str | Path, port: int = 5000, app: str = "") -> list[str]:
    """The command that shows the records of a database at http://127.0.0.1:<port>; it needs the
    variables of `ui_environment`. `app`: the name of an app around MLflow's."""
    check_uri(uri)
    if is_server(uri):
        raise RecordError(f"{redacted(uri)} is already a server: open it in a browser.")
    if not 0 < port < 65536:
        raise RecordError(f"--port {port} is not valid. Expected 1 to 65535.")
    storage = ["--artifacts-destination", str(artifacts)]
    address = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    around = ["--app-name", app, "--uvicorn-opts", "--no-access-log"] if app else []
    return [sys.executable, "-m", "mlflow", "server", *storage, *address, *around]


def ui_app() -> Any:
    """The app that MLflow's server runs: to be called in such a server."""
    from mlflow.server.fastapi_app import app

    return app


def ui_page(port: int, asked: str = "") -> str:
    """The page where the UI shows experiments as model training, its mode being after the #.
    `asked`: what stands after the question mark."""
    question = f"?{asked}" if asked else ""
    return f"http://127.0.0.1:{port}/{question}#/experiments?workflowType=machine_learning"


def check_port(port: int) -> None:
    """Raise an error if another program listens on the port, before anything is started."""
    with socket.socket() as probe:
        # Without this, connections of a server that has just ended would keep the port busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise RecordError(
                f"port {port} of 127.0.0.1 cannot be used: {error.strerror}. `lsof -i :{port}` "
                "shows which program uses it, perhaps another `ablate ui`. Instead: "
                f"ablate ui --port {port + 1 if port < 65535 else 5050}"
            ) from error


def first_error(log: str) -> str:
    """The first error in the log of the UI's server, or its last line if there is none."""
    lines = log.strip().splitlines()
    errors = (line for line in lines if re.search(r"\bERROR\b", line))
    return next(errors, lines[-1] if lines else "it logged nothing")


def ui_environment(uri: str) -> dict[str, str]:
    """Variables to set for `ui_command`: the records, whose password every user of this machine
    could read among a process's arguments; no telemetry, no pickles, no job runner."""
    return {
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "GIT_PYTHON_REFRESH": "quiet",
    }
