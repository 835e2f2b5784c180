"""Checks of `ablate doctor` of the machine: Python, packages, devices, disk."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ablate.commands.doctor.finding import FAIL, OK, WARN, Finding
from ablate.engine.cores import usable_cores
from ablate.errors import to_install
from ablate.store.workspace import Workspace

GIGABYTE = 1e9
NEEDED_GB, COMFORTABLE_GB = 0.2, 5.0
TORCH_SECONDS = 50.0
PYTHON = (3, 11)
TORCH_QUERY = """
import torch
devices = range(torch.cuda.device_count())
print("; ".join(torch.cuda.get_device_name(device) for device in devices))
print(torch.version.cuda or "")
"""
KERNELS_QUERY = """
from ablate.model.native.library import load_library, library
print("off" if load_library()[0] and library() is None else "yes" if library() else "no")
print(load_library()[1])
"""


@dataclass(frozen=True)
class Requirement:
    """A package that ablate depends on, its minimum version, and whether only studies need it."""

    name: str
    minimum: str
    optional: bool


def python(workspace: Workspace) -> Iterator[Finding]:
    """Yield whether this Python is new enough."""
    version = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < PYTHON:
        needed = ".".join(map(str, PYTHON))
        yield Finding(FAIL, version, f"ablate needs Python {needed} or newer.", 7)
    else:
        yield Finding(OK, version)


def packages(workspace: Workspace) -> Iterator[Finding]:
    """One finding for each missing or old package, and one for all others."""
    good = []
    for needed in requirements():
        version = _installed(needed.name)
        if version is None:
            yield _missing(needed)
        elif _numbers(version) < _numbers(needed.minimum):
            old = f"{needed.name} {version} is older than {needed.minimum}"
            yield Finding(FAIL, old, f"pip install --upgrade '{needed.name}>={needed.minimum}'", 7)
        else:
            good.append(f"{needed.name} {version}")
    yield Finding(OK, ", ".join(good))


def _missing(needed: Requirement) -> Finding:
    remedy = to_install(needed.name)
    if needed.optional:
        found = f"{needed.name} is not installed: `ablate trial` works, studies do not"
        return Finding(WARN, found, remedy)
    return Finding(FAIL, f"{needed.name} is not installed", remedy, 7)


def requirements() -> list[Requirement]:
    """Return the dependencies of the installed ablate: always needed, or only for studies."""
    needed = []
    for text in metadata.requires("ablate") or []:
        package, _, condition = text.partition(";")
        matched = re.match(r"\s*([\w.-]+)(?:\[[^]]*\])?\s*>=\s*([\w.]+)", package)
        if matched is None or ("extra" in condition and "study" not in condition):
            continue
        needed.append(Requirement(matched[1], matched[2], optional="extra" in condition))
    return needed


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """2.13.0+cpu -> (2, 13): suffixes and trailing zeros are not compared."""
    leading = re.match(r"[\d.]*", version)
    numbers = [int(part) for part in (leading[0] if leading else "").split(".") if part]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def devices(workspace: Workspace) -> Iterator[Finding]:
    """Cores and memory, and the accelerators that torch sees."""
    cores, usable = os.cpu_count() or 1, usable_cores()
    available = f"{usable:g} cores, {_memory_gb():.0f} GB of memory"
    if usable < cores:
        available += f", though the machine has {cores} cores"
    yield Finding(OK, available)
    yield _accelerators()
    yield _kernels()


def _memory_gb() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGABYTE
    except (ValueError, OSError):
        return float("nan")


def _accelerators() -> Finding:
    """Queried in a separate process, since a driver may hang or crash."""
    try:
        result = _run(TORCH_QUERY, timeout=TORCH_SECONDS)
    except subprocess.TimeoutExpired:
        slow = f"torch has not listed GPUs within {TORCH_SECONDS:g} s"
        return Finding(FAIL, slow, "Does `nvidia-smi` answer?")
    if result.returncode:
        signal = f"killed by signal {-result.returncode}"
        last = (result.stderr.strip().splitlines() or [signal])[-1]
        return Finding(FAIL, f"torch cannot be imported: {last}", "Install it again.", 7)
    names, cuda = result.stdout.split("\n")[:2]
    if names:
        return Finding(OK, f"GPUs: {names} (CUDA {cuda})")
    if shutil.which("nvidia-smi") is None:
        return Finding(OK, "no GPU: trials run on the processor")
    built = f"torch was built for CUDA {cuda}" if cuda else "torch was built without CUDA"
    return Finding(
        WARN,
        f"an NVIDIA driver is here, but {built} and sees no GPU",
        "Install another build of torch: https://pytorch.org",
    )


def _kernels() -> Finding:
    """Check for the compiled kernels of recurrences and losses; building them takes seconds."""
    result = _run(KERNELS_QUERY)
    if result.returncode:
        return Finding(WARN, "kernels cannot be checked without torch")
    state, details = result.stdout.split("\n")[:2]
    if state == "off":
        return Finding(OK, "kernels: switched off by ABLATE_NATIVE=off")
    if state == "yes":
        return Finding(OK, f"kernels: built by {details}")
    return Finding(
        WARN,
        f"no kernels, so torch alone trains, recurrences at about half the speed: {details}",
        "Install a C++ compiler (g++ or clang++), or name one in CXX.",
    )


def _run(script: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def disk(workspace: Workspace) -> Iterator[Finding]:
    """Free space for the workspace, which may not exist yet."""
    folder = existing(workspace.folder)
    free = shutil.disk_usage(folder).free / GIGABYTE
    space = f"{free:.1f} GB free at {folder}"
    remedy = "Free some space, or choose another folder with --workspace."
    if free < NEEDED_GB:
        yield Finding(FAIL, space, remedy)
    elif free < COMFORTABLE_GB:
        yield Finding(WARN, f"{space}: little for checkpoints", remedy)
    else:
        yield Finding(OK, space)


def existing(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())
