"""The folder that everything is stored in (default: `.ablate` in the working directory).

.ablate/
    data/        corpora, downloaded and encoded
    store/       trials and studies (elsewhere with --store URI)
    mlflow.db    records, unless a server is configured
    mlflow-artifacts/
    searches/    Optuna's searches, one file per study, unless a database is configured
    studies/     the latest table of every study, and its driver
    code/        tasks of scripts and notebooks, for their workers
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ablate.config.fields import is_text
from ablate.errors import HeldError, StoreError
from ablate.redaction import keep_secret
from ablate.store import lease, locks
from ablate.store.files import allow_group
from ablate.store.lease import Lease
from ablate.store.store import Store

DEFAULT = ".ablate"


@dataclass(frozen=True)
class Workspace:
    """A workspace folder, and the parts of it that are stored elsewhere."""

    folder: Path
    store_uri: str | None = None
    mlflow_uri: str | None = None
    searches_url: str | None = None

    @property
    def data(self) -> str:
        """The folder of encoded and downloaded corpora."""
        return str(self.folder / "data")

    @property
    def store(self) -> Store:
        """The store of trials and studies."""
        return Store(self.store_uri or str(self.folder / "store"))

    @property
    def tracking_uri(self) -> str:
        """MLflow's address, or the workspace's own database."""
        return self.mlflow_uri or f"sqlite:///{self.folder / 'mlflow.db'}"

    @property
    def has_records(self) -> bool:
        """Whether a server is configured, or the workspace's own database has been made."""
        return self.mlflow_uri is not None or (self.folder / "mlflow.db").exists()

    @property
    def artifacts(self) -> Path:
        """The folder of MLflow's artifacts."""
        return self.folder / "mlflow-artifacts"

    @property
    def searches(self) -> str:
        """Where searches are stored: a database, or the workspace's folder."""
        return self.searches_url or f"folder:{self.folder / 'searches'}"

    def search_log(self, key: str) -> Path | None:
        """The file of a study's searches; None if they are in a database."""
        kind, _, folder = self.searches.partition("folder:")
        return None if kind else Path(folder) / f"{key}.log"

    @property
    def code(self) -> Path:
        """The folder of the code that workers are sent by studies from Python."""
        return self.folder / "code"

    def study_folder(self, key: str) -> Path:
        """Return the folder of a study's tables and plots."""
        return self.folder / "studies" / key


def open_workspace(
    folder: str | None = None,
    *,
    store: str | None = None,
    mlflow: str | None = None,
    searches: str | None = None,
) -> Workspace:
    """The workspace at `folder`, else at $ABLATE_WORKSPACE, else at `.ablate` here."""
    chosen = as_folder(folder or os.environ.get("ABLATE_WORKSPACE") or DEFAULT, "the workspace")
    others = {
        "store": store or os.environ.get("ABLATE_STORE"),
        "mlflow": mlflow or os.environ.get("MLFLOW_TRACKING_URI"),
        "searches": searches or os.environ.get("ABLATE_SEARCHES"),
    }
    allow_group()
    for name, location in {"workspace": str(chosen), **others}.items():
        if location is not None and not is_text(location):
            raise StoreError(
                f"the {name} {location!r} has a name that is not UTF-8, which databases cannot "
                f"store. Choose another with --{name}."
            )
    for uri in filter(None, others.values()):
        keep_secret(uri)
    return Workspace(chosen, others["store"], others["mlflow"], others["searches"])


def as_folder(name: str, what: str) -> Path:
    """The folder with a name. A URI names none: its password would become a name on the disk."""
    if "://" in name:
        keep_secret(name)
        raise StoreError(
            f"{what} {name} is a URI, and must be a folder. Instead: a path on this machine. Only "
            "--store, --mlflow and --searches take a URI."
        )
    return Path(name).absolute()


def make_folders(workspace: Workspace) -> None:
    """Create the workspace's folders, or raise an error with the reason why not."""
    try:
        for folder in (workspace.folder, workspace.folder / "studies", workspace.artifacts):
            folder.mkdir(parents=True, exist_ok=True)
        probe = workspace.folder / f".probe-{os.getpid()}"
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        raise StoreError(
            f"the workspace {workspace.folder} cannot be written: {error.strerror or error}. "
            "Free some space, or choose another folder with --workspace."
        ) from error


@contextmanager
def held(workspace: Workspace, key: str) -> Iterator[Lease | None]:
    """Lock the study so that no second driver runs it; a killed driver's lock is released.

    Yields a lease if drivers on other hosts might run it too, else None.
    """
    # `running_driver` locks the file for a moment
    with locks.signed(_lock_of(workspace, key), 1.0, partial(lease.held_by, key)):
        if workspace.store.folder is not None:
            yield None
            return
        with Lease(workspace.store, key).held() as own:
            yield own


@contextmanager
def log_held(workspace: Workspace, key: str) -> Iterator[None]:
    """Lock the log of a study's searches against drivers that have another store: they lock the
    study there. Readers need no lock; a database has its own."""
    log = workspace.search_log(key)
    if log is None:
        yield
        return
    with locks.signed(log.with_name(f"{key}.driver.json"), 0, partial(_log_in_use, log)):
        yield


def _log_in_use(log: Path, process: locks.Process) -> HeldError:
    return HeldError(
        f"the searches in {log} are already being run by {locks.name(process)}, with another "
        "store. Wait for it, or stop it, and run the same command again; or choose another folder "
        "with --workspace, whose searches start from scratch."
    )


def _lock_of(workspace: Workspace, key: str) -> Path:
    """A study's lock is in its store if that is on a local disk, else in the workspace."""
    store = workspace.store.folder
    folder = workspace.study_folder(key) if store is None else store / "studies" / key
    return folder / "driver.json"


def running_driver(workspace: Workspace, key: str) -> str | None:
    """The driver that runs the study now, or None."""
    if workspace.store.folder is None:
        return lease.holder(workspace.store, key)
    return locks.holder(_lock_of(workspace, key))
