"""What is imported, said, left behind and let in, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import places

RUN = """
import sys, threading, os
from pathlib import Path
from tests.support.records_by_hand import make_journal, make_study, trial_id, write
from ablate.store.store import Store
from ablate.record import background
from ablate.record.background import BackgroundExport
assert "mlflow" not in sys.modules, "imported too early"
store = Store("store")
recorder = BackgroundExport(store, {uri!r}, make_study(), "artifacts", print)
write(store, make_journal(trial_id("mix", 0)))
recorder.notify(trial_id("mix", 0), done=True)
background.STALL_SECONDS = 60
assert recorder.finish("", {{}}).complete
assert os.environ["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] == "false"
import logging
assert logging.getLogger().handlers == []
"""


def python(code: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-c", code]
    env = {**os.environ, "PYTHONPATH": str(places.ROOT)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_nothing_is_said_and_nothing_left_in_the_folder(folder) -> None:
    """With a new database, in a folder that has an old ./mlruns."""
    old = folder / "mlruns" / "0"
    old.mkdir(parents=True)
    (old / "meta.yaml").write_text("name: Default")
    uri = f"sqlite:///{folder / 'space' / 'mlflow.db'}"
    code = RUN.format(uri=uri)
    result = python(code, folder, "-W", "default")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert {path.name for path in folder.iterdir()} == {
        *("mlruns", "space", "store", "artifacts"),
    }
    assert [path.name for path in (folder / "space").iterdir()] == ["mlflow.db"]
    assert sorted(path.name for path in (folder / "mlruns").iterdir()) == ["0"]


def test_what_trains_nothing_imports_nothing(tmp_path) -> None:
    modules = ("", ".places", ".runs", ".background", ".export")
    lines = [f"import ablate.record{name}" for name in modules]
    banned = "{'mlflow', 'torch', 'ray', 'optuna', 'sqlalchemy', 'pandas'}"
    code = "; ".join([*lines, "import sys", f"print({banned} & set(sys.modules))"])
    assert python(code, tmp_path).stdout == "set()\n"
