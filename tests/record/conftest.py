"""Workspaces with an MLflow database that is already made."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ablate.record.client import make_database
from ablate.store.store import Store
from ablate.store.workspace import open_workspace
from tests.support.records_by_hand import Workspace

SHORT_LIVED = "/dev/shm" if Path("/dev/shm").is_dir() else None  # spares hundreds of syncs


@pytest.fixture(scope="session")
def empty_database() -> Iterator[Path]:
    """MLflow's tables, made once: it takes seconds."""
    with tempfile.TemporaryDirectory(dir=SHORT_LIVED) as folder:
        path = Path(folder) / "mlflow.db"
        make_database(f"sqlite:///{path}")
        yield path


@pytest.fixture
def make_workspace(empty_database: Path) -> Iterator[Callable[[], Workspace]]:
    with tempfile.TemporaryDirectory(dir=SHORT_LIVED) as root:

        def make() -> Workspace:
            folder = Path(tempfile.mkdtemp(dir=root))
            shutil.copy(empty_database, folder / "mlflow.db")
            opened = open_workspace(str(folder))
            store = Store(str(folder / "store"))
            uri, artifacts = opened.tracking_uri, opened.artifacts
            return Workspace(folder, store, uri, artifacts, empty_database)

        yield make


@pytest.fixture
def workspace(make_workspace: Callable[[], Workspace]) -> Workspace:
    return make_workspace()


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder on a disk that is quick to sync."""
    with tempfile.TemporaryDirectory(dir=SHORT_LIVED) as folder:
        yield Path(folder)
