"""The compiled kernels: built once on a machine that has a C++ compiler, and never required.

What they compute, torch computes too, and does where there is none, on a GPU, in double precision
or with ABLATE_NATIVE=off. The library lies in the user's cache, under a name that says which
sources, compiler and processor it is of. Kernels take a range of independent rows, which are
shared among as many threads as torch is told to use; the bits do not depend on how many.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

SOURCES = Path(__file__).parent
FLAGS = ("-O3", "-std=c++17", "-fno-math-errno", "-fPIC", "-shared")
FOR_THIS_PROCESSOR = ("-march=native", "-mcpu=native")  # compilers know one or the other
COMPILERS = ("c++", "g++", "clang++")
BUILD_SECONDS = 120.0
SWITCH = "ABLATE_NATIVE"

Kernel = Callable[..., None]


def usable(*tensors: Tensor | None) -> bool:
    """Whether the kernels can take these: float32 in main memory, and a library there is."""
    given = [tensor for tensor in tensors if tensor is not None]
    plain = all(x.dtype == torch.float32 and x.device.type == "cpu" for x in given)
    return plain and library() is not None


def library() -> ctypes.CDLL | None:
    """The kernels; None where they are switched off or could not be built."""
    return None if os.environ.get(SWITCH) == "off" else found()[0]


def version() -> str:
    """What compiled the kernels that are in use, for records."""
    return "none" if library() is None else found()[1]


@cache
def found() -> tuple[ctypes.CDLL | None, str]:
    """The library, and what there is to say of it."""
    compiler = _compiler()
    if compiler is None:
        return None, "no C++ compiler is found (CXX, c++, g++ or clang++)"
    try:
        return _loaded(*compiler), compiler[1]
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return None, f"{compiler[0]} could not build them: {error}"


def _loaded(compiler: str, version: str) -> ctypes.CDLL:
    """The library; built again if what lies there is none (the disk was full, the power went)."""
    path = _built(compiler, version)
    try:
        kernels = ctypes.CDLL(str(path))
    except OSError:
        path.unlink(missing_ok=True)
        kernels = ctypes.CDLL(str(_built(compiler, version)))
    kernels.packed_numbers.restype = ctypes.c_long  # or it would be cut to an int
    return kernels


def _compiler() -> tuple[str, str] | None:
    """The compiler, and the first line that it says of itself."""
    for name in (os.environ.get("CXX"), *COMPILERS):
        path = shutil.which(name) if name else None
        if path is None:
            continue
        try:
            said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.SubprocessError):
            continue
        if said.returncode == 0:
            return path, said.stdout.partition("\n")[0]
    return None


def _built(compiler: str, version: str) -> Path:
    """The library's file, built if it is not there; by one process at a time."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ablate"
    target = folder / f"native-{_digest(version)}.so"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "native.lock").open("w") as lock:
        with contextlib.suppress(ImportError, OSError):  # no locks here: each builds its own
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build(compiler, target)
    return target


def _build(compiler: str, target: Path) -> None:
    said = ""
    for processor in FOR_THIS_PROCESSOR:
        handle, name = tempfile.mkstemp(dir=target.parent, suffix=".so")
        os.close(handle)
        command = [compiler, *FLAGS, processor, str(SOURCES / "kernels.cpp"), "-o", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
            if done.returncode == 0:
                os.replace(name, target)
                return
        finally:
            Path(name).unlink(missing_ok=True)
        said = said or done.stderr.strip().partition("\n")[0]
    raise RuntimeError(said)


def _digest(version: str) -> str:
    """Of everything that the library depends on."""
    parts = [path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]*")) if path.is_file()]
    parts += [version.encode(), " ".join(FLAGS).encode(), _processor().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> str:
    """What a library for this processor may use; a home may be shared by unlike machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    kept = ("flags", "Features", "model", "cpu family", "CPU part")
    return platform.machine() + "".join(sorted({x for x in lines if x.startswith(kept)}))


def pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    """Where a contiguous tensor lies; of none, a null pointer."""
    if tensor is None:
        return ctypes.c_void_p(None)
    if not tensor.is_contiguous():
        raise ValueError(f"a kernel was given a tensor of strides {tensor.stride()}")
    return ctypes.c_void_p(tensor.data_ptr())


def over_rows(kernel: Kernel, num_rows: int, *arguments: object, least: int = 1) -> None:
    """Run a kernel over all rows, whose last arguments are the first and the last of a range, and
    the range's number.

    `least`: rows that are worth a thread.
    """
    parts = threads(num_rows, least)
    cuts = [num_rows * part // parts for part in range(parts + 1)]
    ranges = [tuple(map(ctypes.c_long, (*cuts[n : n + 2], n))) for n in range(parts)]
    others = [_pool(parts).submit(kernel, *arguments, *own) for own in ranges[1:]]
    kernel(*arguments, *ranges[0])
    for other in others:
        other.result()


def threads(num_rows: int, least: int) -> int:
    """How many threads share so many rows."""
    return max(1, min(torch.get_num_threads(), num_rows // least))


@cache
def _pool(parts: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(parts - 1, thread_name_prefix="ablate-native")
