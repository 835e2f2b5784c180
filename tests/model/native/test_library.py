"""The kernels are built where they can be, once, and are never required."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from ablate.model.native import library as module
from ablate.model.native.library import SWITCH, library, pointer, usable

SCRIPT = """
from ablate.model.native.library import load_library, library
print(library() is not None, load_library()[1])
"""


def load_in_process(cache: Path, **settings: str) -> str:
    """What a fresh process says, with a cache of its own."""
    environment = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(cache), **settings}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout.strip()


def script(folder: Path, text: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
@pytest.mark.kernels
def test_they_are_built_once_by_the_first_process(tmp_path):
    with ThreadPoolExecutor(3) as pool:
        reports = set(pool.map(lambda _: load_in_process(tmp_path), range(3)))
    assert len(reports) == 1 and reports.pop().startswith("True ")
    (built,) = (tmp_path / "ablate").glob("*.so")
    when = built.stat().st_mtime_ns
    assert load_in_process(tmp_path).startswith("True ")
    assert built.stat().st_mtime_ns == when


@pytest.mark.slow
@pytest.mark.kernels
def test_a_library_that_is_cut_off_is_built_again(tmp_path):
    load_in_process(tmp_path)
    (built,) = (tmp_path / "ablate").glob("*.so")
    size = built.stat().st_size
    built.write_bytes(b"\x7fELF")
    assert load_in_process(tmp_path).startswith("True ")
    assert built.stat().st_size == size


@pytest.mark.slow
def test_without_a_compiler_torch_does_their_work(tmp_path):
    assert load_in_process(tmp_path, PATH=str(tmp_path)).startswith(
        "False no C++ compiler is found"
    )


@pytest.mark.slow
def test_a_compiler_that_fails_is_named(tmp_path):
    broken = script(tmp_path, 'test "$1" = --version && exec echo broken 1.0; echo no >&2; exit 1')
    report = load_in_process(tmp_path, CXX=broken)
    assert report == f"False {broken} could not build them: no"
    assert not list((tmp_path / "ablate").glob("*.so"))


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "ablate").write_text("a file, where a folder should be")
    assert load_in_process(tmp_path).startswith("False ")


def test_they_are_switched_off(monkeypatch):
    monkeypatch.setenv(SWITCH, "off")
    assert library() is None and not usable(torch.zeros(1))
    assert module.version() == "none"


@pytest.mark.kernels
def test_what_they_can_take():
    assert usable(torch.zeros(1), None)
    assert not usable(torch.zeros(1), torch.zeros(1, dtype=torch.float64))
    assert not usable(torch.zeros(1, device="meta"))
    with pytest.raises(ValueError, match="strides"):
        pointer(torch.zeros(3, 2).t())
