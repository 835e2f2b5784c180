"""Processes that a task starts find the functions of the study's own file."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

from ablate.trial.provenance import trust
from ablate.trial.run import load_modules
from ablate.trial.user import own_modules

TEXT = "import beside_own\ndef square(x):\n    return x * x + beside_own.ZERO\n"
CALL = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read())(3))"


def test_a_function_of_the_file_is_found_by_its_name(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv(own_modules.VARIABLE, raising=False)
    (tmp_path / "beside_own.py").write_text("ZERO = 0\n")
    file = tmp_path / "own.py"
    file.write_text(TEXT)
    trust.accept([file])
    load_modules([str(file)])
    square = sys.modules[own_modules.name_of(str(file))].square
    sent = pickle.dumps(square)  # as a pool does
    assert pickle.loads(sent) is square
    file.write_text("edited while the trial runs")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # `multiprocessing` sends it
    command = [sys.executable, "-c", CALL]
    called = subprocess.run(command, input=sent, env=env, capture_output=True)
    assert called.stdout == b"9\n", called.stderr
    [(_, copy)] = json.loads(os.environ[own_modules.VARIABLE]).values()
    Path(copy).write_text("def square(x): return 0\n")  # a disk may lose what it has
    called = subprocess.run(command, input=sent, env=env, capture_output=True)
    Path(copy).unlink()
    assert (called.stdout, called.returncode) == (b"", 1)
    assert b"ModuleNotFoundError" in called.stderr
