"""What a trial ran on: host, hardware, versions, commits. Read once per process; no secrets.

Versions are read from the installed packages' metadata, so that nothing is imported for them.
"""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from ablate import errors
from ablate.store.files import cpuinfo

DISTRIBUTIONS = {"ablate": errors.DISTRIBUTION}  # named otherwise than what is imported
PACKAGES = ("ablate", "torch", "numpy", "safetensors", "pyarrow", "ray", "optuna", "mlflow")
GIT_SECONDS = 5.0  # after which a slow disk's commit is not recorded


def environment() -> dict[str, Any]:
    """The environment as plain data, for a journal, an artifact and tags."""
    return {**_fixed(), "hardware": hardware()}


@functools.cache
def _fixed() -> dict[str, Any]:
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "versions": versions(),
        "git": git_state(Path.cwd()),
        "ablate_git": _own_git(),
    }


@functools.cache
def versions() -> dict[str, str]:
    """The installed versions of the packages that a result may depend on."""
    installed = {}
    for package in PACKAGES:
        try:
            installed[package] = metadata.version(DISTRIBUTIONS.get(package, package))
        except metadata.PackageNotFoundError:
            continue
    return installed


def hardware() -> str:
    """The accelerator's name if torch is using one, otherwise the processor's."""
    # Not cached: torch may start to use an accelerator later. A trial without torch imports none.
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return torch.cuda.get_device_name()
    return _processor()


@functools.cache
def _processor() -> str:
    lines = cpuinfo().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def git_state(folder: Path) -> dict[str, Any] | None:
    """The commit checked out in a folder, and whether tracked files differ; None if no checkout."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    # Untracked files do not count: the workspace, by default in this folder, is one.
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def _own_git() -> dict[str, Any] | None:
    """The state of ablate's own checkout; None if it is installed as a package."""
    # An installed package may lie in another project's checkout, with its virtual environment.
    checkout = Path(errors.__file__).resolve().parents[1]
    top = _git(checkout, "rev-parse", "--show-toplevel")
    return git_state(checkout) if top is not None and Path(top) == checkout else None


def _git(folder: Path, *arguments: str) -> str | None:
    """Git's output, or None: no git, no checkout, or too slow."""
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # `git status` would rewrite the index
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return result.stdout.strip()
