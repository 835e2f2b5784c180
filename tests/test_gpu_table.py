"""A GPU's table runs where there is little more than torch, and loses nothing to a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu import agreement, run, timing
from benchmarks.gpu.case import Case, Sides, checked
from tests.support import places

BLOCKED = ("mlflow", "optuna", "pyarrow", "ray", "safetensors")
BARE = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"blocked: {{name}}", name=name)

sys.meta_path.insert(0, Blocker())
"""
KILLED = """
import os, sys
if "--after=0" in sys.argv:
    from benchmarks.gpu import run
    run._row = lambda *given: os.kill(os.getpid(), 9)
"""


def test_it_runs_without_the_packages_that_torch_does_not_bring(tmp_path):
    """And another process goes on after one that crashed."""
    (tmp_path / "sitecustomize.py").write_text(BARE + KILLED)
    path = os.pathsep.join((str(tmp_path), str(places.ROOT)))
    options = "--device cpu --tiny --without-compile --only mixture --json out.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *options.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["torch"] == torch.__version__
    first, second = told["rows"]
    assert first["notes"] == ["its process was killed by signal 9 (SIGKILL)"]
    assert second["status"] == "measured"
    assert second["faster"][1] > 0 and second["ours_mb"] is None  # not on a processor
    assert second["what"] in done.stdout


GIVEN = {
    "device": "cpu",
    "tiny": True,
    "only": None,
    "without_compile": False,
    "seconds": 60.0,
    "after": 0,
}


def rows_of(
    monkeypatch, capsys, tmp_path: Path, make: Callable[[Any], Any], **options: Any
) -> tuple[int, dict[str, Any], str]:
    """Run one case: the exit status, its row, and what is printed."""
    case = Case(name="it", what="a case", against="another", make=make)
    monkeypatch.setattr(run, "CASES", [case])
    monkeypatch.setattr(run, "LEAST_SECONDS", 0.1)
    monkeypatch.setattr(timing, "product_rate", lambda device, size: 1e12)
    file = tmp_path / "out.json"
    status = run.run(Namespace(**{**GIVEN, "json": str(file), **options}), time.perf_counter())
    (row,) = json.loads(file.read_text())["rows"]
    return status, row, capsys.readouterr().out


def sides(ours: float, theirs: Callable[[], torch.Tensor], **more: Any) -> Sides:
    def mine() -> torch.Tensor:
        return torch.tensor(ours)

    return Sides(ours=mine, theirs=theirs, notes=checked(mine, theirs, 1e-3, **more))


def refuses() -> torch.Tensor:
    raise RuntimeError("no such operation\nand a long story")


def sleeps(setting: Any) -> Sides:
    time.sleep(30)
    raise AssertionError


@pytest.mark.parametrize(
    ("make", "options", "exit_status", "status", "said"),
    [
        (lambda _: sides(1.0, lambda: torch.tensor(1.0)), {}, 0, "measured", "agree to 0.001"),
        (lambda _: sides(1.1, lambda: torch.tensor(1.0)), {}, 1, "failed", "0.1 apart"),
        (lambda _: sides(1.0, refuses), {}, 1, "failed", "RuntimeError: no such operation"),
        (lambda _: sides(1.0, refuses, compiles=True), {}, 0, "no opponent", "compiling failed"),
        (sleeps, {"seconds": 0.3}, 0, "not run", "out of time"),
        (sleeps, {"seconds": 0.0}, 0, "not run", "out of time"),
    ],
)
def test_every_case_has_a_row_whatever_comes_of_it(
    monkeypatch, capsys, tmp_path, make, options, exit_status, status, said
):
    ended, row, printed = rows_of(monkeypatch, capsys, tmp_path, make, **options)
    assert (ended, row["status"]) == (exit_status, status)
    assert said in " ".join(printed.split())


def test_a_technique_that_differs_on_the_device_is_named(monkeypatch):
    honest, wrong = agreement._loss_and_gradients, []

    def planted(assembly, seed):
        loss, gradients = honest(assembly, seed)
        if loss.dtype == torch.float32:
            gradients["head.decoder.bias"] = gradients["head.decoder.bias"] * 1.1
        return loss, gradients

    assert agreement._tried({"backbone": "rhn"}, "cpu", wrong) == "agrees"
    monkeypatch.setattr(agreement, "_loss_and_gradients", planted)
    assert agreement._tried({"backbone": "rhn"}, "cpu", wrong) == "wrong"
    assert wrong[0].startswith("rhn: gradients: ours and theirs are")
