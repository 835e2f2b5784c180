"""The compiled kernels: built once on a machine with a C++ compiler, and never required.

torch can compute the same, and does so without a compiler, on a GPU, in double precision or with
ABLATE_NATIVE=off. The library is stored in the user's cache, under a name derived from the sources,
compiler and processor. Next to it are the hash of its contents and the result of its self-test,
which runs once, in a process of its own. Nothing else is loaded: neither a damaged library nor one
that somebody else put there.

Kernels take a range of independent rows, which are distributed over as many threads as torch uses.
The bits do not depend on the number of threads, except those of a bias's gradient under the
augmented loss, which each thread sums over its own rows.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ablate.errors import StoreError
from ablate.store.files import (
    cache_folder,
    cpuinfo,
    is_ours,
    private_folder,
    replace_synced,
    write_whole,
)
from ablate.store.locks import locked

SOURCES = Path(__file__).parent
FLAGS = ("-O3", "-std=c++17", "-fno-math-errno", "-fPIC", "-shared")
FOR_THIS_PROCESSOR = ("-march=native", "-mcpu=native")  # a compiler knows one or the other
COMPILERS = ("c++", "g++", "clang++")
BUILD_SECONDS = 120.0
SWITCH = "ABLATE_NATIVE"
CRASHES = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP")

_uses = {"kernels": 0, "torch": 0}


def usable(*tensors: Tensor | None, dtype: torch.dtype = torch.float32) -> bool:
    """Return whether the kernels can take these tensors: of a type, on the CPU, with a library."""
    present = [tensor for tensor in tensors if tensor is not None]
    if not all(x.dtype == dtype and x.device.type == "cpu" for x in present):
        return False
    if torch.compiler.is_compiling():  # torch.compile cannot look into what finds a library
        called: Any = torch.compiler.disable(usable)
        return called(*tensors, dtype=dtype)
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
        return opened(_library_file(*compiler)), compiler[1]
    except (RuntimeError, StoreError) as error:
        return None, str(error)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"{compiler[0]} could not build them: {error}"


def opened(file: Path) -> ctypes.CDLL:
    """Load a library's file into this process."""
    kernels = ctypes.CDLL(str(file))
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
    """The library's file, built if there is no sound one, by one process at a time."""
    folder = private_folder(cache_folder() / "ablate")
    target = folder / f"native-{_digest(version)}.so"
    if not _is_sound(target):
        with locked(folder / "native.lock"):
            if not _is_sound(target):  # no other process built it meanwhile
                _build(compiler, target)
    return target


def _is_sound(target: Path) -> bool:
    """Return whether this user built the file, and it passed its test and is still the same.

    A library that failed its test is not built again: that is an error, which says why.
    """
    try:
        verdict = json.loads(_verdict(target).read_bytes())
        if not verdict["failure"]:
            return is_ours(target) and verdict["sha256"] == _sha256(target)
    except (OSError, ValueError, TypeError, KeyError):
        return False
    raise RuntimeError(f"{verdict['failure']}. To try again: rm {_verdict(target)}")


def _verdict(target: Path) -> Path:
    """The file that says what was built, and how its test ended."""
    return target.with_suffix(".json")


def _build(compiler: str, target: Path) -> None:
    """Build, test and install the library; one that fails its test is set aside for good."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / target.name
        _compile(compiler, built)
        failure, digest = _failure(built), _sha256(built)
        if not failure:
            built.chmod(0o700)  # whatever the umask is
            replace_synced(built, target)
    verdict = {"sha256": digest, "failure": failure}
    write_whole(_verdict(target), json.dumps(verdict).encode())
    if failure:
        # Only the process that built it says so: others read the verdict.
        print(f"ablate: kernels are not used, torch does their work: {failure}", file=sys.stderr)
        raise RuntimeError(failure)


def _compile(compiler: str, built: Path) -> None:
    reason = ""
    for processor in FOR_THIS_PROCESSOR:
        command = [compiler, *FLAGS, processor, str(SOURCES / "kernels.cpp"), "-o", str(built)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
        if done.returncode == 0:
            return
        reason = reason or done.stderr.strip().partition("\n")[0]
    raise RuntimeError(f"{compiler} could not build them: {reason}")


def _failure(built: Path) -> str:
    """Why a new library fails its test, in a process that it may crash; empty if it passes."""
    # -P: the working folder's modules do not come first.
    command = [sys.executable, "-P", "-m", "ablate.lm.model.native.self_test", str(built)]
    code = os.pathsep.join(filter(None, (str(SOURCES.parents[3]), *sys.path)))
    environment = {**os.environ, "PYTHONPATH": code, "OMP_NUM_THREADS": "1", SWITCH: "on"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=BUILD_SECONDS, env=environment
    )
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        if name in CRASHES:
            return f"they crashed their self-test with {name}"
        raise RuntimeError(f"their self-test was stopped by {name}")  # the next process tries again
    if done.returncode:
        last = (done.stderr.strip() or "no reason given").splitlines()[-1]
        return f"they failed their self-test: {last}"
    return ""


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _digest(version: str) -> str:
    """A digest of everything that the library depends on."""
    parts = [path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]*")) if path.is_file()]
    parts += [version.encode(), " ".join(FLAGS).encode(), _processor().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> str:
    """The processor's features; different machines may share a home directory."""
    relevant = ("flags", "Features", "model", "cpu family", "CPU part")
    lines = {line for line in cpuinfo().splitlines() if line.startswith(relevant)}
    return platform.machine() + ("".join(sorted(lines)) or platform.processor())


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
    # ctypes releases Python's lock during a call, so the ranges run at once.
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
