"""What a disk does to a file: a bit changes, and nothing says so."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ablate.store import files


def flip_on_disk(path: Path, at: int, bit: int = 2) -> None:
    """Change one bit in place. Size, inode and the time of the last change stay."""
    status, data = path.stat(), bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def as_new_process() -> None:
    """Forget which files this process has hashed, and let go of databases that are gone by now."""
    files._hashed.clear()
    stores = sys.modules.get("mlflow.store.tracking.sqlalchemy_store")
    for engine in stores.SqlAlchemyStore._engine_map.values() if stores else ():
        engine.dispose()  # else MLflow writes on to a file of which only this process knows
