"""Where everything is kept: one folder, `.ablate` in the working directory unless told otherwise.

.ablate/
    data/        corpora, fetched and encoded
    store/       trials and studies (or elsewhere, by --store URI)
    mlflow.db    records, unless a server is named
    mlflow-artifacts/
    searches.db  Optuna's, unless a database is named
    studies/     the last table of every study, and who runs it
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ablate.errors import HeldError, StoreError
from ablate.store import Store

DEFAULT = ".ablate"


@dataclass(frozen=True)
class Workspace:
    """A workspace folder, and what of it was put elsewhere."""

    folder: Path
    store_uri: str | None = None
    mlflow_uri: str | None = None
    searches_url: str | None = None

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    @property
    def store(self) -> Store:
        return Store(self.store_uri or str(self.folder / "store"))

    @property
    def tracking_uri(self) -> str:
        return self.mlflow_uri or f"sqlite:///{self.folder / 'mlflow.db'}"

    @property
    def artifacts(self) -> Path:
        return self.folder / "mlflow-artifacts"

    @property
    def searches(self) -> str:
        return self.searches_url or f"sqlite:///{self.folder / 'searches.db'}"

    def study_folder(self, key: str) -> Path:
        return self.folder / "studies" / key


def open_workspace(
    folder: str | None = None,
    *,
    store: str | None = None,
    mlflow: str | None = None,
    searches: str | None = None,
) -> Workspace:
    """The workspace named, else that of ABLATE_WORKSPACE, else `.ablate` here."""
    chosen = Path(folder or os.environ.get("ABLATE_WORKSPACE") or DEFAULT).absolute()
    return Workspace(
        chosen,
        store or os.environ.get("ABLATE_STORE"),
        mlflow or os.environ.get("MLFLOW_TRACKING_URI"),
        searches or os.environ.get("ABLATE_SEARCHES"),
    )


def make_folders(workspace: Workspace) -> None:
    """Make the workspace's folders, or say why it cannot be written."""
    try:
        for folder in (workspace.folder, workspace.folder / "studies", workspace.artifacts):
            folder.mkdir(parents=True, exist_ok=True)
        probe = workspace.folder / f".probe-{os.getpid()}"
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        raise StoreError(
            f"the workspace {workspace.folder} cannot be written: {error.strerror or error}. "
            "Free some space, or name another folder with --workspace."
        ) from error


@contextmanager
def held(workspace: Workspace, key: str) -> Iterator[None]:
    """Hold the study so that no second driver runs it; a killed driver's hold is gone with it."""
    place = workspace.study_folder(key)
    place.mkdir(parents=True, exist_ok=True)
    with (place / "driver.json").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise HeldError(f"{key} is being run already, by {_holder(file.read())}.") from None
        holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.time()}
        file.truncate(0)
        file.write(json.dumps(holder))
        file.flush()
        yield


def running_driver(workspace: Workspace, key: str) -> str | None:
    """Who runs the study now, or None."""
    try:
        with (workspace.study_folder(key) / "driver.json").open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return _holder(file.read())
    except FileNotFoundError:
        return None
    return None


def _holder(text: str) -> str:
    try:
        holder = json.loads(text)
    except ValueError:
        return "another process"
    since = time.strftime("%H:%M:%S", time.localtime(holder["since"]))
    return f"process {holder['pid']} on {holder['host']} since {since}"
