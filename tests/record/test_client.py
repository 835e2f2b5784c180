"""MLflow's empty database."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from ablate.record.client import make_database


def test_one_process_makes_the_databases_of_several_workspaces(folder: Path) -> None:
    for name in ("one", "another"):
        make_database(f"sqlite:///{folder / name}")
        with contextlib.closing(sqlite3.connect(folder / name)) as made:
            assert made.execute("SELECT count(*) FROM experiments").fetchone()
