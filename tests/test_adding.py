"""`docs/adding.md` as its reader would follow it: every block is run as it stands there."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from typing import Any

from ablate.compare.formats import table_of_values
from ablate.lm.analysis import NoOptions
from ablate.lm.testing.subject import WIDTH, SmallModel
from tests.support import places

PAGE = places.DOCS / "adding.md"
BLOCKS = re.findall(r"```python\n(?!# file)(.*?)```", PAGE.read_text(), re.DOTALL)
FILED = re.findall(
    r"```(?:python|toml)\n# file: (wavelets\S+|pyproject\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL
)
PLUG_IN = {**dict(FILED), "wavelets/__init__.py": ""}
FILES = dict(re.findall(r"```python\n# file: (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
NO_MLFLOW = 'raise ModuleNotFoundError("none here", name="mlflow")'


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


def test_a_plug_in_is_found_once_it_is_installed(tmp_path):
    """Its study, its task and its technique, in another process, as its user would."""
    project, installed = tmp_path / "project", tmp_path / "installed"
    for name, text in PLUG_IN.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    install = ("install", "--quiet", "--no-deps", "--no-build-isolation", "--target")
    _ran("-m", "pip", *install, str(installed), str(project))
    (installed / "mlflow.py").write_text(NO_MLFLOW)  # its database would take half of the time
    ablate, place = ("-m", "ablate"), ("--workspace", str(tmp_path / "workspace"))
    known = {**os.environ, "PYTHONPATH": str(installed)}
    assert "haar_levels" in _ran(*ablate, "studies", env=known)
    assert "w times the mean squared difference" in _ran(
        *ablate, "components", "regularizer", "smooth", env=known
    )
    table = _ran(*ablate, "study", "haar_levels", "--local", *place, env=known)
    assert "5 levels" in table and "better" in table


def _ran(*words: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
