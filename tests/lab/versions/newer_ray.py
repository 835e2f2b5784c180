"""A study over a Ray that has moved the names that only save seconds: it runs, and says so once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")

import ray

from ablate.tune.cluster.ray_names import FASTER

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
HOME = Path(ray.__file__).parent
CHANGED = ("_private/node.py", "_private/services.py", "_private/worker.py", "tune/**/*.py")
NAMES = [re.split(r"[.:]", name.partition("(")[0])[-1] for name in FASTER]
STUDY = """
from dataclasses import dataclass

from ablate import Arm, Metric, Scale, Study, setting, table, task


@dataclass(frozen=True, kw_only=True)
class Config:
    shift: float = setting(0.0, doc="added to the seed")


@task("shifted", config=Config, metrics=Metric("share", better="higher"))
def train(run):
    share = run.seed + run.config.shift
    return {"valid_share": share, "test_share": share}


study = Study(
    question="Does a newer Ray run it?",
    base={"task": "shifted"},
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"shifted.shift": 1.0})),
    scales={"s": Scale(seeds=2)},
)
"""


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A folder with this Ray, in which these names are others."""
    shutil.copytree(HOME, tmp_path / "newer" / "ray", copy_function=os.symlink)
    moved = re.compile(rf"\b({'|'.join(NAMES)})\b")
    for file in {each for pattern in CHANGED for each in HOME.glob(pattern)}:
        text = file.read_text()
        copy = tmp_path / "newer" / "ray" / file.relative_to(HOME)
        copy.unlink()
        # `persist_port` is in Ray's library, which stays as it is.
        copy.write_text(moved.sub(lambda found: f"{found[1]}_2", text).replace("port_2", "port"))
    return tmp_path / "newer"


def test_a_study_runs_on_it_to_its_table(newer: Path, tmp_path: Path):
    (tmp_path / "shifts.py").write_text(STUDY)
    done = subprocess.run(
        [sys.executable, "-m", "ablate", "study", "shifts.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(newer)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^b .*\+1\.00 ", done.stdout, re.MULTILINE), done.stdout
    said = f"Ray {ray.__version__} has no Node.start_api_server (nor 8 more private names): the "
    assert (done.stdout + done.stderr).count(said) == 1
