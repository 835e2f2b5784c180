"""What a trial ran on: host, processor, kernels, versions, commits; no secrets.

It is read once per process. Versions are read from the installed packages' metadata, so that
nothing is imported for them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from ablate import errors
from ablate.config.plugins import plugins
from ablate.store.files import cpuinfo

DISTRIBUTIONS = {"ablate": errors.DISTRIBUTION}  # named otherwise than what is imported
PACKAGES = ("ablate", "torch", "numpy", "safetensors", "pyarrow", "ray", "optuna", "mlflow")
# What a processor computes with, of all that Linux lists.
SETS = ("sse4_2", "fma", "avx", "asimd", "sve", "amx", "bf16", "i8mm", "f16c")
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
        "processor": processor(),
        "kernels": kernels(),
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
    return _listed("model name") or platform.processor() or platform.machine()


def processor() -> str:
    """The processor, with what tells it from others of its name: two of equal text, with the same
    kernels and versions, compute the same bits."""
    known = {name: _listed(name) for name in ("cpu family", "model", "CPU part")}
    parts = [f"{name.removeprefix('cpu ')} {value}" for name, value in known.items() if value]
    listed = (_listed("flags") or _listed("Features")).split()
    sets = " ".join(sorted(name for name in listed if name.startswith(SETS) or "bf16" in name))
    return "; ".join(filter(None, [", ".join([_processor(), *parts]), sets]))


def _listed(name: str) -> str:
    """What Linux says of the first processor under this name; empty if nothing."""
    pairs = (line.partition(":") for line in cpuinfo().splitlines())
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")


def kernels() -> str:
    """The digest of the sources that plug-ins compile when they are needed."""
    files = sorted(
        file
        for plugin in plugins()
        for pattern in plugin.native
        for file in plugin.folder.glob(pattern)
    )
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


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
