"""When Triton's kernels are used, that each compiles for a GPU, and that no test is skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest
import torch
from packaging.requirements import Requirement

from ablate.model import computed
from ablate.model.triton import library
from ablate.model.triton.library import INTERPRETER, SWITCH, launch, usable
from tests.model.triton.conftest import INSTALLED
from tests.support.places import ROOT

ON_GPU = SimpleNamespace(dtype=torch.float32, device=torch.device("cuda"))


def test_where_the_tests_packages_are_installed_so_is_triton():
    """So that the other tests of this folder are skipped only where it cannot be."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = map(Requirement, project["optional-dependencies"]["dev"])
    (triton,) = (each for each in needed if each.name == "triton")
    assert triton.marker is not None and triton.marker.evaluate({"platform_system": "Linux"})
    assert INSTALLED or not triton.marker.evaluate()


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="Triton is not installed, so it can compile nothing")
def test_every_kernel_compiles_for_a_gpu(tmp_path):
    environment = {**os.environ, INTERPRETER: "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-m", "tests.model.triton.compiled"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    compiled = dict(line.split() for line in done.stdout.splitlines())
    assert set(compiled) == _kernels() and all(map(int, compiled.values()))


def _kernels() -> set[str]:
    """Every function in the folder that is passed on to be launched."""
    return {
        f"ablate.model.triton.{file.stem}.{name}"
        for file in (ROOT / "ablate/model/triton").glob("*.py")
        for name in re.findall(r"(?:launch|_run)\((_\w+)", file.read_text())
    }


def test_they_are_off_unless_switched_on(monkeypatch):
    monkeypatch.setattr(library, "version", lambda: "3.9.0")
    assert usable(ON_GPU, None)
    for value in ("", "off", "1"):
        monkeypatch.setenv(SWITCH, value)
        assert not usable(ON_GPU)


def test_they_take_floats_of_one_gpu_or_of_the_interpreter(monkeypatch):
    monkeypatch.setattr(library, "version", lambda: "3.9.0")
    monkeypatch.setenv(INTERPRETER, "1")
    assert usable(torch.zeros(1), torch.zeros(1, dtype=torch.bfloat16))
    assert not usable(ON_GPU, torch.zeros(1, dtype=torch.float64))
    assert not usable(ON_GPU, torch.zeros(1)) and not usable(torch.zeros(1, device="meta"))
    monkeypatch.setenv(INTERPRETER, "0")
    assert not usable(torch.zeros(1)) and usable(ON_GPU)


def test_the_record_says_what_computed(monkeypatch):
    def recorded() -> list[str]:
        before = computed.uses()
        if usable(ON_GPU):
            library._uses["kernels"] += 1
        return computed.computed_by(before)

    monkeypatch.setattr(library, "version", lambda: "3.9.0")
    assert recorded() == ["kernels: triton 3.9.0"]
    monkeypatch.setattr(library, "version", lambda: None)
    assert recorded() == ["torch: triton is not installed"]
    monkeypatch.delenv(SWITCH)
    assert recorded() == ["torch: ABLATE_TRITON is not on"]


def test_a_kernel_takes_no_tensor_with_gaps():
    with pytest.raises(ValueError, match="strides"):
        launch(None, (1,), torch.zeros(3, 2).t())
