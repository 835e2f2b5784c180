"""Checks of `ablate doctor` of the machine: packages and devices."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

from ablate.commands.doctor.finding import FAIL, OK, WARN, Finding
from ablate.engine.cores import usable_cores
from ablate.errors import required, to_install
from ablate.store.workspace import Workspace

SECONDS = 50.0
REQUIREMENT = re.compile(r"\s*([\w.-]+)(?:\[[^]]*\])?.*>=\s*([\w.]+)")
# What does not work without an extra; "" is what everything needs.
WITHOUT = {
    "": "nothing works",
    "query": "`ablate query` and `ablate table compare` do not work",
    "page": "there are no pages and no plots",
    "study": "studies do not run",
    "lm": "language models do not train",
}
# In a process of its own, since a driver may hang or crash. Kernels are built, which takes seconds.
DEVICES = """
import json, torch, warnings
from ablate.config.data_source import named
from ablate.config.plugins import plugins
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    # Asks the driver. A count of GPUs may come from elsewhere, and be right under a driver too old.
    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
gpus = [torch.cuda.get_device_name(index) for index in range(number)]
why_not = [str(each.message) for each in said if "CUDA" in str(each.message)]
compiled = [named(plugin.compiled)() for plugin in plugins() if plugin.compiled]
print(json.dumps([gpus, torch.version.cuda, why_not, compiled]))
"""


def packages(workspace: Workspace) -> Iterator[Finding]:
    """One finding for each extra that lacks something and for each old package, and one for all
    others."""
    good = {f"Python {platform.python_version()} ({sys.executable})": None}
    missing: dict[str, list[str]] = {}
    for each in required():
        needed = REQUIREMENT.match(each.package)
        if needed is None or each.extra not in WITHOUT:
            continue
        name, minimum = needed.groups()
        version = _installed(name)
        if version is None:
            missing.setdefault(each.extra, []).append(name)
        elif _numbers(version) < _numbers(minimum):
            old = f"{name} {version} is older than {minimum}"
            yield Finding(FAIL, old, f"pip install --upgrade '{name}>={minimum}'", 7)
        else:
            good[f"{name} {version}"] = None
    yield from map(_lacks, missing, missing.values())
    yield Finding(OK, ", ".join(good))


def _lacks(extra: str, names: list[str]) -> Finding:
    found = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not installed"
    if not extra:
        return Finding(FAIL, found, to_install(names[0]), 7)
    return Finding(WARN, f"{found}: {WITHOUT[extra]}", to_install(names[0]))


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> list[int]:
    """2.13.0+cpu -> [2, 13]: suffixes and trailing zeros are not compared."""
    leading = re.match(r"(\d+(\.\d+)*?)(\.0+)*(?!\.?\d)", version)
    return [int(part) for part in leading[1].split(".")] if leading else []


def devices(workspace: Workspace) -> Iterator[Finding]:
    """Cores and memory, the accelerators that torch sees, and the compiled kernels."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    cores = f"{usable_cores():g} of {os.cpu_count()} cores"
    yield Finding(OK, f"{cores}, {memory:.0f} GB of memory")
    if _installed("torch") is None:
        return  # which `packages` says
    command = [sys.executable, "-c", DEVICES]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        slow = f"torch has not listed GPUs within {SECONDS:g} s"
        yield Finding(FAIL, slow, "Does `nvidia-smi` answer?")
        return
    if result.returncode:
        signal = f"killed by signal {-result.returncode}"
        last = (result.stderr.strip().splitlines() or [signal])[-1]
        yield Finding(FAIL, f"torch cannot be imported: {last}", "Install it again.", 7)
        return
    # The last line: libraries may print before.
    gpus, cuda, why_not, compiled = json.loads(result.stdout.splitlines()[-1])
    yield _gpus(gpus, cuda, " ".join(why_not))
    yield from (_kernels(*each) for each in compiled)


def _kernels(kernels: str, details: str, products: str) -> Finding:
    products = f"products of output layers by {products}"
    if kernels == "no":
        slow = "no kernels, so torch alone trains, recurrences at about half the speed"
        compiler = "Install a C++ compiler (g++ or clang++), or name one in CXX."
        return Finding(WARN, f"{slow}: {details}", compiler)
    if kernels == "off":
        return Finding(OK, f"kernels: switched off by ABLATE_NATIVE=off; {products}")
    return Finding(OK, f"kernels: built by {details}; {products}")


def _gpus(names: list[str], cuda: str | None, why_not: str) -> Finding:
    """`why_not` is what torch says of a GPU that it cannot use."""
    if names:
        return Finding(OK, f"GPUs: {'; '.join(names)} (CUDA {cuda})")
    if not why_not and shutil.which("nvidia-smi") is None:
        return Finding(OK, "no GPU: trials run on the processor")
    build = f"torch for CUDA {cuda}" if cuda else "torch, built without CUDA,"
    remedy = "Update the driver, or install a torch for its CUDA: https://pytorch.org"
    return Finding(WARN, f"{build} sees no GPU: trials run on the processor. {why_not}", remedy)
