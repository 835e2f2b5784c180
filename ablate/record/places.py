"""Where records go: the workspace's own database, any MLflow server, and how to look at them."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from ablate.errors import RecordError

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
SERVERS = ("http", "https")


def default_uri(workspace: str | Path) -> str:
    """The tracking database of a workspace."""
    return f"sqlite:///{Path(workspace).absolute() / 'mlflow.db'}"


def default_artifacts(workspace: str | Path) -> Path:
    """The artifacts of a workspace's tracking database."""
    return Path(workspace).absolute() / "mlflow-artifacts"


def check_uri(uri: str) -> str:
    """The URI, if records can go there; whether anybody answers is another matter."""
    scheme = urlsplit(uri).scheme.split("+")[0]
    if scheme in SERVERS and urlsplit(uri).hostname:
        return uri
    if scheme in DATABASES and uri.partition("://")[2].strip("/"):
        return uri
    raise RecordError(
        f"'{redacted(uri)}' is no place for records. Allowed: an MLflow server "
        "(http://host:5000) or a database (sqlite:////folder/mlflow.db, "
        "postgresql://user@host/name). MLflow's folders of files (./mlruns) are not; without "
        "--mlflow the records go to mlflow.db in the workspace."
    )


def is_server(uri: str) -> bool:
    return urlsplit(uri).scheme in SERVERS


def redacted(uri: str) -> str:
    """The URI without its password, fit to be shown and stored."""
    return re.sub(r"(://[^/@:]*):[^@]*@", r"\1:***@", uri)


def digest(uri: str) -> str:
    """A short name for a server, by which the store keeps what it has delivered there."""
    return hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:12]


def ui_command(uri: str, artifacts: str | Path, port: int = 5000) -> list[str]:
    """The command that shows the records of a database at http://127.0.0.1:<port>."""
    check_uri(uri)
    if is_server(uri):
        raise RecordError(f"{redacted(uri)} is a server already: open it in a browser.")
    if not 0 < port < 65536:
        raise RecordError(f"--port {port} is not allowed. Allowed: 1 to 65535.")
    served = ["--backend-store-uri", uri, "--artifacts-destination", str(artifacts)]
    place = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", "server", *served, *place]


def ui_environment() -> dict[str, str]:
    """What to add to the environment of `ui_command`: no telemetry, no pickles, no job runner."""
    return {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "GIT_PYTHON_REFRESH": "quiet",
    }
