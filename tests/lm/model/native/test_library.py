"""The kernels are built where they can be, once, and are never required."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from ablate.errors import StoreError
from ablate.lm.model.native import library as module
from ablate.lm.model.native import self_test
from ablate.lm.model.native.library import SWITCH, library, load_library, pointer, usable
from ablate.store.files import is_ours, private_folder

SCRIPT = """
from ablate.lm.model.native.library import load_library, library
print(library() is not None, load_library()[1])
"""


def script(folder: Path, text: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def load_in_process(cache: Path) -> str:
    """What a fresh process says, with the cache and the compiler in this folder."""
    environment = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(cache)}
    environment["CXX"] = str(cache / "compiler")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip() + done.stderr


@pytest.fixture
def load(tmp_path, monkeypatch):
    """What a process would say that starts now, with a cache of its own; a library or none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def load(**settings: str):
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        return load_library.__wrapped__()

    return load


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """A cache for which two processes have built the kernels at the same time."""
    folder = tmp_path_factory.mktemp("cache")
    script(folder, 'exec c++ "$@" -O0')
    with ThreadPoolExecutor(2) as pool:
        reports = set(pool.map(load_in_process, [folder] * 2))
    assert len(reports) == 1 and reports.pop().startswith("True ")
    return folder


@pytest.mark.slow
@pytest.mark.kernels
def test_they_are_built_once_by_the_first_process(cache, load):
    (built,) = (cache / "ablate").glob("*.so")
    when = built.stat().st_mtime_ns
    found, _ = load(XDG_CACHE_HOME=str(cache), CXX=str(cache / "compiler"))
    assert found._name == str(built)
    assert built.stat().st_mtime_ns == when


def cut_off(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)  # to load it would be SIGBUS


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 4
    file.write_bytes(data)


def open_to_all(file: Path) -> None:
    file.chmod(0o777)  # anybody may have written it


def link_elsewhere(file: Path) -> None:
    file.rename(file.with_suffix(".elsewhere"))
    file.symlink_to(file.with_suffix(".elsewhere"))


def of_before(file: Path) -> None:
    """What older versions left: a library without a verdict."""
    file.with_suffix(".json").unlink()


def delete(file: Path) -> None:
    file.unlink()


DAMAGES = [cut_off, flip_a_bit, open_to_all, link_elsewhere, of_before, delete]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_library_that_may_not_be_ours_is_not_sound(tmp_path, damage):
    library = tmp_path / "native-0.so"
    library.write_bytes(bytes(range(256)) * 9)
    library.chmod(0o700)
    verdict = {"sha256": hashlib.sha256(library.read_bytes()).hexdigest(), "failure": ""}
    library.with_suffix(".json").write_text(json.dumps(verdict))
    assert module._is_sound(library)
    damage(library)
    assert not module._is_sound(library)


COPIES = """
test "$1" = --version && exec c++ --version
for built; do :; done
exec cp {sound} $built
"""


@pytest.mark.slow
@pytest.mark.kernels
def test_a_library_that_is_cut_off_is_built_again(cache):
    """By the next process, which would die of it."""
    (built,) = (cache / "ablate").glob("*.so")
    sound = built.rename(cache / "sound")  # this process may have loaded it
    shutil.copy(sound, built)
    script(cache, COPIES.format(sound=sound))
    cut_off(built)
    assert load_in_process(cache).startswith("True ")
    assert built.read_bytes() == sound.read_bytes() and is_ours(built)


def test_a_cache_that_others_may_write_to_is_not_used(tmp_path, load):
    """The library in it would crash."""
    (tmp_path / "ablate").mkdir()
    (tmp_path / "ablate").chmod(0o777)
    found, why = load()
    assert found is None
    assert why.startswith(f"{tmp_path / 'ablate'} is not a folder that only you can write")
    assert not list((tmp_path / "ablate").iterdir())


def test_what_another_user_owns_is_not_ours(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    assert is_ours(tmp_path / "file")
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    assert not is_ours(tmp_path / "file")
    with pytest.raises(StoreError, match="only you can write to"):
        private_folder(tmp_path)


CRASHING = """
test "$1" = --version && exec echo crashing 1.0
for built; do :; done
echo built >> {log}
echo 'extern "C" long packed_numbers(long, long) {{ return 0; }}
extern "C" void multiply() {{ *(volatile int*)0 = 1; }}' | c++ -shared -fPIC -x c++ - -o $built
"""


@pytest.mark.slow
@pytest.mark.kernels
def test_a_library_that_crashes_is_set_aside_once(tmp_path, load, capsys):
    """Its first process says so in one line; no other one builds or tries it."""
    log = tmp_path / "log"
    compiler = script(tmp_path, CRASHING.format(log=log))
    why = "they crashed their self-test with SIGSEGV"
    assert load(CXX=compiler) == (None, why)
    said = f"ablate: kernels are not used, torch does their work: {why}\n"
    assert capsys.readouterr() == ("", said)
    (verdict,) = (tmp_path / "ablate").glob("*.json")
    assert load() == (None, f"{why}. To try again: rm {verdict}")
    assert capsys.readouterr() == ("", "")
    assert not list((tmp_path / "ablate").glob("*.so"))
    assert log.read_text() == "built\n"


@pytest.mark.kernels
def test_a_library_that_computes_something_else_fails(monkeypatch):
    """In this process: with another kernel in the place of the one that is tested."""
    file = Path(load_library()[0]._name)
    monkeypatch.setattr(module, "load_library", load_library)  # undone afterwards
    self_test.check(file)
    monkeypatch.setattr(self_test, "exponentials_", lambda logits, _: (logits.exp_().sum(1), None))
    with pytest.raises(AssertionError):
        self_test.check(file)


def test_without_a_compiler_torch_does_their_work(tmp_path, load):
    found, why = load(PATH=str(tmp_path), CXX="")
    assert found is None and why.startswith("no C++ compiler is found")


def test_a_compiler_that_fails_is_named(tmp_path, load):
    broken = script(tmp_path, 'test "$1" = --version && exec echo broken 1.0; echo no >&2; exit 1')
    assert load(CXX=broken) == (None, f"{broken} could not build them: no")
    assert not list((tmp_path / "ablate").glob("*.so"))


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, load):
    (tmp_path / "ablate").write_text("a file, where a folder should be")
    assert load()[0] is None


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
