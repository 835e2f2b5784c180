"""What `ablate doctor` finds out about the machine: Python, packages, devices, disk."""

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
from ablate.store.workspace import Workspace

GIGABYTE = 1e9
NEEDED_GB, COMFORTABLE_GB = 0.2, 5.0
TORCH_SECONDS = 50.0
PYTHON = (3, 11)
STUDY = "pip install 'ablate[study]'"
ASK_TORCH = """
import torch
devices = range(torch.cuda.device_count())
print("; ".join(torch.cuda.get_device_name(device) for device in devices))
print(torch.version.cuda or "")
"""
ASK_KERNELS = """
from ablate.model.native.library import load_library, library
print("off" if load_library()[0] and library() is None else "yes" if library() else "no")
print(load_library()[1])
"""


@dataclass(frozen=True)
class Requirement:
    """A package that ablate names, the least version, and whether only studies need it."""

    name: str
    least: str
    optional: bool


def python(workspace: Workspace) -> Iterator[Finding]:
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < PYTHON:
        wanted = ".".join(map(str, PYTHON))
        yield Finding(FAIL, found, f"ablate needs Python {wanted} or newer.", 7)
    else:
        yield Finding(OK, found)


def packages(workspace: Workspace) -> Iterator[Finding]:
    """One line for what is as it should be, one for each package that is not."""
    good = []
    for needed in requirements():
        version = _installed(needed.name)
        if version is None:
            yield _missing(needed)
        elif _numbers(version) < _numbers(needed.least):
            old = f"{needed.name} {version} is older than {needed.least}"
            yield Finding(FAIL, old, f"pip install --upgrade '{needed.name}>={needed.least}'", 7)
        else:
            good.append(f"{needed.name} {version}")
    yield Finding(OK, ", ".join(good))


def _missing(needed: Requirement) -> Finding:
    if needed.optional:
        return Finding(
            WARN, f"{needed.name} is not installed: `ablate trial` works, studies do not", STUDY
        )
    return Finding(FAIL, f"{needed.name} is not installed", f"pip install {needed.name}", 7)


def requirements() -> list[Requirement]:
    """What the installed ablate says it needs: for everything, and for studies."""
    found = []
    for text in metadata.requires("ablate") or []:
        package, _, condition = text.partition(";")
        matched = re.match(r"\s*([\w.-]+)(?:\[[^]]*\])?\s*>=\s*([\w.]+)", package)
        if matched is None or ("extra" in condition and "study" not in condition):
            continue
        found.append(Requirement(matched[1], matched[2], optional="extra" in condition))
    return found


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """2.13.0+cpu -> (2, 13): what comes after the numbers decides nothing here, nor do zeros."""
    leading = re.match(r"[\d.]*", version)
    numbers = [int(part) for part in (leading[0] if leading else "").split(".") if part]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def devices(workspace: Workspace) -> Iterator[Finding]:
    """Cores and memory, and the accelerators that torch sees."""
    cores, usable = os.cpu_count() or 1, _usable_cores()
    found = f"{usable:g} cores, {_memory_gb():.0f} GB of memory"
    if usable < cores:
        limit = f"{found}, though the machine has {cores} cores"
        yield Finding(WARN, limit, f"Give studies --workers {max(1, int(usable))}.")
    else:
        yield Finding(OK, found)
    yield _accelerators()
    yield _kernels()


def _usable_cores() -> float:
    """Those this process may use: of its affinity, and of its container's share."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = float(len(affinity(0)) if affinity else os.cpu_count() or 1)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError):  # no container, or no limit ("max")
        return cores


def _memory_gb() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGABYTE
    except (ValueError, OSError):
        return float("nan")


def _accelerators() -> Finding:
    """Asked in a process of its own: a driver that hangs or crashes takes only that with it."""
    try:
        asked = subprocess.run(
            [sys.executable, "-c", ASK_TORCH], capture_output=True, text=True, timeout=TORCH_SECONDS
        )
    except subprocess.TimeoutExpired:
        slow = f"torch has not found out about GPUs within {TORCH_SECONDS:g} s"
        return Finding(FAIL, slow, "Does `nvidia-smi` answer?")
    if asked.returncode:
        last = (asked.stderr.strip().splitlines() or [f"it died by {-asked.returncode}"])[-1]
        return Finding(FAIL, f"torch cannot be imported: {last}", "Install it again.", 7)
    names, cuda = asked.stdout.split("\n")[:2]
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
    """Whether recurrences and losses have their compiled kernels; building them takes seconds."""
    asked = subprocess.run([sys.executable, "-c", ASK_KERNELS], capture_output=True, text=True)
    if asked.returncode:
        return Finding(WARN, "whether there are kernels cannot be asked without torch")
    state, said = asked.stdout.split("\n")[:2]
    if state == "off":
        return Finding(OK, "kernels: switched off by ABLATE_NATIVE=off")
    if state == "yes":
        return Finding(OK, f"kernels: built by {said}")
    return Finding(
        WARN,
        f"no kernels, so torch alone trains, recurrences at about half the speed: {said}",
        "Install a C++ compiler (g++ or clang++), or name one in CXX.",
    )


def disk(workspace: Workspace) -> Iterator[Finding]:
    """Room where the workspace is, or will be."""
    place = existing(workspace.folder)
    free = shutil.disk_usage(place).free / GIGABYTE
    found = f"{free:.1f} GB free at {place}"
    remedy = "Free some space, or name another folder with --workspace."
    if free < NEEDED_GB:
        yield Finding(FAIL, found, remedy)
    elif free < COMFORTABLE_GB:
        yield Finding(WARN, f"{found}: little for checkpoints", remedy)
    else:
        yield Finding(OK, found)


def existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(place for place in (folder, *folder.parents) if place.exists())
