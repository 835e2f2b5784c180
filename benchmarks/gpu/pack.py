"""Writes one file that has all sources, and runs where there are torch and numpy alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import zipapp
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTE = "packed.json"  # at the root of what is unpacked: which commit it is
PACKAGES = ("ablate", "benchmarks")
SOURCES = (".py", ".cpp", ".h", ".toml")  # no results, no pictures


def pack(target: Path) -> None:
    """Write the file; it begins with `start.py`."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for package in PACKAGES:
            shutil.copytree(ROOT / package, copy / package, ignore=_others)
        shutil.copy(Path(__file__).with_name("start.py"), copy / "__main__.py")
        (copy / NOTE).write_text(json.dumps(commit()))
        zipapp.create_archive(copy, target, compressed=True)


def commit() -> dict[str, str | bool | None]:
    """The commit of the sources, and whether they are others than it has; as noted, if packed."""
    noted = ROOT / NOTE
    if noted.exists():
        return json.loads(noted.read_text())
    number, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", *PACKAGES)
    return {"commit": number, "changed": None if changes is None else bool(changes)}


def _others(folder: str, names: list[str]) -> set[str]:
    """What is left out of a folder."""
    paths = [Path(folder, name) for name in names]
    files = {path.name for path in paths if path.is_file() and path.suffix not in SOURCES}
    return files | {"__pycache__"}


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
