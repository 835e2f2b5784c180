"""The compiled kernels: built once on a machine with a C++ compiler, and never required.

torch can compute the same, and does so without a compiler, on a GPU, in double precision or with
ABLATE_NATIVE=off. The library is stored in the user's cache, under a name derived from the sources,
compiler and processor. Kernels take a range of independent rows, which are distributed over as many
threads as torch uses; the bits do not depend on the number of threads.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ablate.store.files import lock

SOURCES = Path(__file__).parent
FLAGS = ("-O3", "-std=c++17", "-fno-math-errno", "-fPIC", "-shared")
FOR_THIS_PROCESSOR = ("-march=native", "-mcpu=native")  # a compiler knows one or the other
COMPILERS = ("c++", "g++", "clang++")
BUILD_SECONDS = 120.0
SWITCH = "ABLATE_NATIVE"

_uses = {"kernels": 0, "torch": 0}


def usable(*tensors: Tensor | None) -> bool:
    """Return whether the kernels can take these tensors: float32, on the CPU, with a library."""
    present = [tensor for tensor in tensors if tensor is not None]
    if not all(x.dtype == torch.float32 and x.device.type == "cpu" for x in present):
        return False
    if library() is not None:
        return True
    _uses["torch"] += 1
    return False


def uses() -> dict[str, int]:
    """How often this process ran a kernel, and how often torch computed what a kernel could."""
    return dict(_uses)


def computed_by(before: dict[str, int]) -> list[str]:
    """What computed the kernels' work since `before`, for records.

    "kernels: COMPILER" and "torch: WHY NO KERNELS"; empty if there was no work for kernels (a GPU,
    double precision, counted n-grams).
    """
    parts = []
    if _uses["kernels"] > before["kernels"]:
        parts.append(f"kernels: {load_library()[1]}")
    if _uses["torch"] > before["torch"]:
        off = os.environ.get(SWITCH) == "off"
        parts.append(f"torch: {SWITCH}=off" if off else f"torch: {load_library()[1]}")
    return parts


def library() -> ctypes.CDLL | None:
    """The kernels; None if they are switched off or could not be built."""
    return None if os.environ.get(SWITCH) == "off" else load_library()[0]


def version() -> str:
    """The version of the compiler of the kernels in use, for records."""
    return "none" if library() is None else load_library()[1]


@cache
def load_library() -> tuple[ctypes.CDLL | None, str]:
    """The library with its compiler's version, or None with the reason."""
    compiler = _compiler()
    if compiler is None:
        return None, "no C++ compiler is found (CXX, c++, g++ or clang++)"
    try:
        return _open_library(*compiler), compiler[1]
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return None, f"{compiler[0]} could not build them: {error}"


def _open_library(compiler: str, version: str) -> ctypes.CDLL:
    """Open the library; build it again if the file is corrupt (full disk, power failure)."""
    path = _library_file(compiler, version)
    try:
        kernels = ctypes.CDLL(str(path))
    except OSError:
        path.unlink(missing_ok=True)
        kernels = ctypes.CDLL(str(_library_file(compiler, version)))
    kernels.packed_numbers.restype = ctypes.c_long  # the default is an int, which is too short
    return kernels


def _compiler() -> tuple[str, str] | None:
    """The compiler, and the first line of its `--version`."""
    for name in (os.environ.get("CXX"), *COMPILERS):
        path = shutil.which(name) if name else None
        if path is None:
            continue
        try:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.SubprocessError):
            continue
        if done.returncode == 0:
            return path, done.stdout.partition("\n")[0]
    return None


def _library_file(compiler: str, version: str) -> Path:
    """The library's file, built if missing, by one process at a time."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ablate"
    target = folder / f"native-{_digest(version)}.so"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "native.lock").open("w") as file:
        lock(file)
        if not target.exists():
            _build(compiler, target)
    return target


def _build(compiler: str, target: Path) -> None:
    reason = ""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = f"{folder}/{target.name}"
        for processor in FOR_THIS_PROCESSOR:
            command = [compiler, *FLAGS, processor, str(SOURCES / "kernels.cpp"), "-o", built]
            done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
            if done.returncode == 0:
                os.replace(built, target)
                return
            reason = reason or done.stderr.strip().partition("\n")[0]
    raise RuntimeError(reason)


def _digest(version: str) -> str:
    """A digest of everything that the library depends on."""
    parts = [path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]*")) if path.is_file()]
    parts += [version.encode(), " ".join(FLAGS).encode(), _processor().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> str:
    """The processor's features; different machines may share a home directory."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    relevant = ("flags", "Features", "model", "cpu family", "CPU part")
    return platform.machine() + "".join(sorted({x for x in lines if x.startswith(relevant)}))


def pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    """The address of a contiguous tensor; a null pointer for None."""
    if tensor is None:
        return ctypes.c_void_p(None)
    if not tensor.is_contiguous():
        raise ValueError(f"a kernel was passed a tensor with strides {tensor.stride()}")
    return ctypes.c_void_p(tensor.data_ptr())


def run(name: str, num_rows: int, *arguments: Any, least: int = 1) -> None:
    """Run a kernel over all rows, in one range per thread. The kernel's last arguments are the
    first and last row of a range, and the range's number.

    `least`: the fewest rows that are worth a thread.
    """
    _uses["kernels"] += 1
    kernel, passed = getattr(library(), name), [_as_c(argument) for argument in arguments]
    parts = threads(num_rows, least)
    cuts = [num_rows * part // parts for part in range(parts + 1)]
    ranges = [tuple(map(ctypes.c_long, (*cuts[n : n + 2], n))) for n in range(parts)]
    others = [_pool(parts).submit(kernel, *passed, *own) for own in ranges[1:]]
    kernel(*passed, *ranges[0])
    for other in others:
        other.result()


def _as_c(argument: Any) -> Any:
    """A number or a tensor as a kernel takes it; anything else is a pointer already."""
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if isinstance(argument, float):
        return ctypes.c_float(argument)
    return pointer(argument) if argument is None or isinstance(argument, Tensor) else argument


def threads(num_rows: int, least: int) -> int:
    """The number of threads for that many rows."""
    return max(1, min(torch.get_num_threads(), num_rows // least))


@cache
def _pool(parts: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(parts - 1, thread_name_prefix="ablate-native")
