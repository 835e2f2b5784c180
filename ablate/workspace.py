"""Where everything is kept: one folder, `.ablate` in the working directory unless told otherwise.

.ablate/
    data/        corpora, fetched and encoded
    store/       trials and studies (or elsewhere, by --store URI)
    mlflow.db    records, unless a server is named
    mlflow-artifacts/
    searches/    Optuna's, a file a study, unless a database is named
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
from typing import TextIO

from ablate import lease
from ablate.errors import HeldError, StoreError
from ablate.lease import Lease
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
        return self.searches_url or f"folder:{self.folder / 'searches'}"

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
def held(workspace: Workspace, key: str) -> Iterator[Lease | None]:
    """Hold the study so that no second driver runs it; a killed driver's hold is gone with it.

    A lease is given where drivers on other hosts might run it too.
    """
    with _locked_here(workspace, key):
        if workspace.store.folder is not None:
            yield None
            return
        with Lease(workspace.store, key).held() as lease:
            yield lease


@contextmanager
def _locked_here(workspace: Workspace, key: str) -> Iterator[None]:
    with _lock_file(workspace, key) as file:
        if not _locked(file, fcntl.LOCK_EX, tries=10):  # somebody may only be looking
            file.seek(0)
            raise HeldError(
                f"{key} is being run already, by {_holder(file.read())}. Wait for it, or stop it "
                "and give the same command again."
            )
        holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.time()}
        file.truncate(0)
        file.write(json.dumps(holder))
        file.flush()
        yield


def _lock_file(workspace: Workspace, key: str) -> TextIO:
    """Where the lock of a study is: with its trials if these are on a disk of this machine."""
    place = _lock_folder(workspace, key)
    try:
        place.mkdir(parents=True, exist_ok=True)
        return (place / "driver.json").open("a+")
    except OSError as error:
        raise StoreError(f"cannot write {place}: {error.strerror or error}.") from error


def _lock_folder(workspace: Workspace, key: str) -> Path:
    store = workspace.store.folder
    return workspace.study_folder(key) if store is None else store / "studies" / key


def _locked(file: TextIO, how: int, tries: int = 1) -> bool:
    """Whether the lock could be had."""
    for _ in range(tries):
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:  # a file system without locks: nobody can be told apart
            return True
    return False


def running_driver(workspace: Workspace, key: str) -> str | None:
    """Who runs the study now, or None."""
    if workspace.store.folder is None:
        return lease.holder(workspace.store, key)
    try:
        with (_lock_folder(workspace, key) / "driver.json").open() as file:
            return None if _locked(file, fcntl.LOCK_SH) else _holder(file.read())
    except OSError:  # nobody ever did, or it is not for us to see
        return None


def _holder(text: str) -> str:
    try:
        holder = json.loads(text)
    except ValueError:
        return "another process"
    since = time.strftime("%H:%M:%S", time.localtime(holder["since"]))
    return f"process {holder['pid']} on {holder['host']} since {since}"
