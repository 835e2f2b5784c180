"""`docs/adding.md` as its reader would follow it: every block is run as it stands there."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ablate.analysis import NoOptions
from ablate.compare.formats import table_of_values
from ablate.testing.subject import WIDTH, SmallModel
from tests.support import places

PAGE = places.DOCS / "adding.md"
BLOCKS = re.findall(r"```python\n(?!# file)(.*?)```", PAGE.read_text(), re.DOTALL)
FILES = dict(re.findall(r"```python\n# file: (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_page_has_its_files():
    technique = ["gaussian_noise.py", "test_gaussian_noise.py", "noise_study.py"]
    assert list(FILES) == [*technique, "corners.py"]


@pytest.mark.slow
def test_the_technique_passes_its_test(folder: Path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


@pytest.mark.slow
def test_the_study_runs_and_the_technique_has_a_page(folder: Path, workspace):
    path = ["--workspace", str(workspace.folder)]
    study = ["study", str(folder / "noise_study.py"), "--local", *path]
    done = _ablate(*study)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"noise: 0\.1 .*", done.stdout), done.stdout
    own = ["--techniques", str(folder / "gaussian_noise.py")]
    page = _ablate("components", "regularizer", "gaussian_noise", *own)
    assert "standard deviation of the noise" in page.stdout


def test_the_other_blocks_are_a_format_a_command_and_an_analysis(workspace):
    form, command, analysis = map(_executed, BLOCKS)
    table = table_of_values(["name", "size"], [("a", 1 / 3), ("b", None)])
    assert form["write"](table) == f"name\tsize\na\t{1 / 3}\nb\t"
    parser = argparse.ArgumentParser()
    command["arguments"](parser)
    options = parser.parse_args(["--workspace", str(workspace.folder)])
    assert command["run"](options) == "0"
    model = SmallModel({}).model
    finding = analysis["ANALYSIS"].run(argparse.Namespace(model=model), NoOptions())
    assert finding.rows[0][0] < finding.rows[0][1] < 0.1 * WIDTH**0.5


def _executed(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(block, names)
    return names


def _ablate(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ablate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
