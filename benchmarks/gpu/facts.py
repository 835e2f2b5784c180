"""What is known of a run: the device, the versions, and the commit."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ablate.lm.model.native import library
from ablate.store.files import cpuinfo

ROOT = Path(__file__).parents[2]


def facts_of(device: str) -> dict[str, Any]:
    """What a reader of the numbers needs to know."""
    changes = _git("status", "--porcelain", "ablate", "benchmarks")
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed": None if changes is None else bool(changes),
        "device": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "driver": _driver() if device == "cuda" else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda or torch.version.hip,
        "cudnn": torch.backends.cudnn.version() if device == "cuda" else None,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "kernels": library.version() if device == "cpu" else None,
        "python": platform.python_version(),
        "command": sys.argv,
        "folder": str(ROOT),
    }


def heading(facts: Mapping[str, Any]) -> str:
    """The lines above the table."""
    return "\n".join(_heading(facts))


def _heading(facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"{facts['device']}, {facts['threads']} threads"
    versions = ("torch", "cuda", "cudnn", "driver")
    yield ", ".join(f"{name} {facts[name]}" for name in versions if facts[name])
    changed = ", with changes" if facts["changed"] else ""
    yield f"ablate {facts['commit'] or 'of an unknown commit'}{changed}"
    rate = facts["large_product_tflops"]
    yield f"a large product in bfloat16: {rate:,.2f} TFLOP/s; what is not in bfloat16 has no TF32"
    if facts["options"]["tiny"]:
        yield "tiny sizes, whatever the names say: these times mean nothing"


def _processor() -> str:
    lines = (line.partition(":") for line in cpuinfo().splitlines())
    return next(
        (value.strip() for key, _, value in lines if "model name" in key), platform.machine()
    )


def _driver() -> str | None:
    """The driver's version, by its own tool; None if that is missing."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.splitlines()[0].strip()
    return None


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
