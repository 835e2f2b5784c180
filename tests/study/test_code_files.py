"""Tasks and techniques of a script: sent by value, as they are when the study is run."""

from __future__ import annotations

import inspect
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from ablate.config import tasks
from ablate.errors import TrialError
from ablate.store import journal as journals
from ablate.store.store import Store
from ablate.trial.provenance import trust
from ablate.trial.provenance.changes import Changes
from ablate.trial.provenance.closure import closure
from ablate.trial.run import load_modules
from ablate.trial.user import by_value
from tests.support import small_studies

pytestmark = pytest.mark.usefixtures("without_pages", "without_mlflow")

HEAD = """
from __future__ import annotations
from dataclasses import dataclass, field
from typing import Literal
import numpy as np
import torch
import ablate
from ablate import Arm, Metric, Scale, Study, setting, table, task
ACCURACY = Metric("accuracy", better="higher")

@dataclass(frozen=True, kw_only=True)
class Config:
    shift: float = setting(0.0, doc="added")
    kind: Literal["a", "b"] = setting("a", doc="resolved where the script's names are unknown")
"""
TASK = """
@task("toy", config=Config, metrics=ACCURACY)
def train(run):
    return {"valid_accuracy": 0.0, "test_accuracy": run.config.shift + used()}
"""
RUN = """
study = Study(
    question="?", base={"task": "toy"}, base_arm="a",
    design=table(Arm("a"), Arm("b", {"toy.shift": 1.0})), scales={"s": Scale(seeds=1)},
)
try:
    summary = ablate.run(study, local=LOCAL, quiet=True)
except ablate.errors.AblateError as error:
    print(error)
else:
    print(*(arm.cells["test"].mean for arm in summary.arms))
"""


@pytest.fixture
def script(tmp_path, monkeypatch, capsys) -> Callable[..., str]:
    """Executes a script of these parts as Python does; returns what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))

    def execute(*parts: str, local: bool = True, edit: tuple[str, str] = ("", "")) -> str:
        file, text = tmp_path / "train.py", "\n".join([HEAD, f"LOCAL = {local}", *parts])
        assert edit[0] in text
        file.write_text(text.replace(*edit, 1))
        main = ModuleType("__main__")
        main.__file__ = str(file)
        monkeypatch.setitem(sys.modules, "__main__", main)
        exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), vars(main))
        return capsys.readouterr().out

    return execute


def files(folder: Path) -> list[Path]:
    return sorted((folder / ".ablate" / "code").glob("*/*"))


def trials(folder: Path) -> set[str]:
    return {path.name for path in (folder / ".ablate" / "store" / "trials").iterdir()}


def rerun_elsewhere(folder: Path) -> str:
    """What another process says, which knows no more than the file: as a worker does."""
    command = [sys.executable, "-m", "ablate", "rerun", max(trials(folder))]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


AS_THEY_ARE = """
@dataclass
class C:
    lr: float = 1.0
    more: list = field(default_factory=list)
cfg = C()
cfg.lr = 2.0

X = np.array([[3.0], [1.0], [2.0]])
X[0] = 5
X.sort(axis=0)

from sklearn.preprocessing import StandardScaler
scaler = StandardScaler()
scaler.fit(X)

net = torch.nn.Linear(1, 1)
net.load_state_dict({"weight": torch.full((1, 1), 3.0), "bias": torch.zeros(1)})

long = []
for number in range(20_000):
    long.append(number)

drawn = np.random.normal()

import functools
@functools.cache
def used():
    tried = cfg.lr, X[-1, 0], scaler.mean_[0] * 3, net(torch.ones(1)).item(), long[-1], drawn
    return sum(map(float, tried))
"""


@pytest.mark.slow
def test_objects_are_as_they_are_when_the_study_is_run(script, tmp_path):
    """What statements did to them counts, and another process finds the same."""
    printed = script(AS_THEY_ARE, TASK, RUN, "print(used())")
    numbers, own = printed.splitlines()
    assert numbers.split()[0] == own
    assert float(own) - 20_017 == pytest.approx(sys.modules["__main__"].drawn)
    assert "every bit agrees" in rerun_elsewhere(tmp_path)


def test_local_runs_the_function_itself(script):
    used = "seen = []\ndef used():\n    seen.append(1)\n    return 2.0"
    assert script(used, TASK, RUN, "print(seen)") == "2.0 3.0\n[1]\n"


def test_a_trial_does_not_find_what_another_one_changed(script):
    used = "seen = [0.0]\ndef used():\n    seen.append(1.0)\n    return sum(seen)"
    assert script(used, TASK, RUN) == "1.0 2.0\n", "and not 3.0 for arm b"


@pytest.mark.parametrize(
    "before, after, same",
    [
        ("FACTOR = 2.0", "FACTOR = 3.0", False),
        ("FACTOR = 2.0", "FACTOR = 2.0; FACTOR += 1", False),
        ("return FACTOR", "return FACTOR + 1", False),
        ("setting(0.0", "setting(0.5", False),
        ("FACTOR = 2.0", "FACTOR = 2.0  # by two", True),
        ("return FACTOR", "\n    'It is the factor.'\n    return FACTOR", True),
        ("other = 1", "other = 2", True),
        ('doc="added"', 'doc="added to it"', True),
    ],
)
def test_another_value_or_code_makes_other_trials(script, tmp_path, before, after, same):
    parts = ["FACTOR = 2.0\nother = 1\ndef used(): return FACTOR\n", TASK, RUN]
    assert script(*parts) == "2.0 3.0\n"
    known = trials(tmp_path)
    printed = script(*parts, edit=(before, after))
    assert (trials(tmp_path) == known, printed == "2.0 3.0\n") == (same, same)


def test_a_script_s_trial_is_not_of_the_program_that_looks_at_it(script, tmp_path, monkeypatch):
    script("def used(): return 2.0", TASK, RUN)
    program = tmp_path / "ablate"  # as the command in the environment's folder of programs
    program.write_text("import ablate.cli\n")
    main = ModuleType("__main__")
    main.__file__ = str(program)
    monkeypatch.setitem(sys.modules, "__main__", main)
    stored = Store(str(tmp_path / ".ablate" / "store"))
    journal = journals.read(stored, max(trials(tmp_path)))
    (attempt,) = journal.attempts
    assert "code" not in attempt.closure and "numpy" in attempt.closure["distributions"]
    assert "code" not in closure(journal.trial) and Changes().since(journal.trial, journal) == []


def test_a_module_that_the_task_uses_counts_by_its_code(script, tmp_path, monkeypatch):
    module = tmp_path / "by_how_much.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    used = "from by_how_much import FACTOR, scaled\ndef used(): return scaled(FACTOR)"
    code = "FACTOR = 2.0\ndef scaled(x):\n    return 3 * x\n"

    def result(text: str) -> str:
        module.write_text(text)
        sys.modules.pop("by_how_much", None)
        return script(used, TASK, RUN)

    assert result(code) == result(f"# a comment\n{code}") == "6.0 7.0\n"
    assert len(trials(tmp_path)) == 2
    assert result(code.replace("3 *", "30 *")) == "60.0 61.0\n"
    assert len(trials(tmp_path)) == 4


CHANGED = """
import json
RATE = 0.1
TABLE = {"a": 1}
CALLS, _seen, last = 0, [], None
class Model:
    width = 32
    slots: list = []
def scaled(x):
    global CALLS
    CALLS += 1
    _seen.append(x)
    return x * RATE * Model.width
def more():
    return CACHE
CACHE = more
"""


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("RATE = 0.2", "RATE"),
        ("RATE = 0", "RATE"),
        ("TABLE['a'] = 2", "TABLE"),
        ("Model.width = 64", "Model.width"),
        ("scaled = lambda x: x", "scaled"),
        ("scaled(1.0)", ""),
        ("new = 1", ""),
    ],
)
def test_a_module_that_the_script_changed_is_refused(
    script, tmp_path, monkeypatch, statement, name
):
    """Workers once trained on what the file says, and old results were shown for the new value."""
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("changed_here", None)
    (tmp_path / "changed_here.py").write_text(CHANGED)
    used = "import changed_here\ndef used(): return changed_here.scaled(1.0)\nchanged_here."
    printed = script(f"{used}{statement}", TASK, RUN)
    assert (f"changed_here.{name} was changed after it was imported" in printed) == bool(name)
    assert (printed == "3.2 4.2\n") == (not name)


def test_what_changed_since_the_trials_on_record_is_said(script):
    parts = [
        "FACTOR = 2.0\ndef used(): return FACTOR\n",
        TASK,
        RUN.replace("quiet=True", "quiet=False"),
    ]
    assert "changed since" not in script(*parts)
    assert "changed since" not in script(*parts, edit=("FACTOR = 2.0", "FACTOR = 2.0  # two"))
    said = " ".join(script(*parts, edit=("FACTOR = 2.0", "FACTOR = 3.0")).split())
    assert "changed since the trials on record: FACTOR. These make other trials" in said


def test_a_file_of_equal_values_is_used_again(script, tmp_path):
    parts = ["def used(): return 2.0", TASK, RUN]
    script(*parts)
    (file,) = files(tmp_path)
    header = by_value.header_of(file.read_bytes())
    assert file.name == "train.pickle"
    assert header["values"]["task 'toy'"].keys() == {"Config", "train", "used"}
    written = file.stat().st_mtime_ns
    script(*parts)
    assert files(tmp_path) == [file] and file.stat().st_mtime_ns == written
    file.write_bytes(b"planted")
    script(*parts)
    assert files(tmp_path) == [file] and file.stat().st_size > 100


def test_a_file_that_this_user_did_not_write_is_not_loaded(script, tmp_path, monkeypatch):
    script("def used(): return 2.0", TASK, RUN)
    (file,) = files(tmp_path)
    monkeypatch.setattr(trust, "_accepted", set())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    refused = rerun_elsewhere(tmp_path)
    assert f"{file} is code that a record names" in refused and "--trust" in refused


def test_another_version_of_python_is_named(script, tmp_path, monkeypatch):
    script("def used(): return 2.0", TASK, RUN)
    (file,) = files(tmp_path)
    monkeypatch.setattr(by_value, "PYTHON", "3.99")
    sent = r"train\.pickle was sent by Python 3\.1\d, and \S+ has Python 3\.99.* the same Python"
    with pytest.raises(TrialError, match=sent):
        by_value.load(file, file.read_bytes())


def test_what_cannot_be_sent_is_named_with_the_ways_out(script, tmp_path):
    used = "import threading\nLOCK = threading.Lock()\ndef used(): return LOCK.locked() * 1.0"
    refused = script(used, TASK, RUN, local=False)
    assert re.search(
        r"train\.py:\d+: the task 'toy' cannot be sent to workers: it uses 'LOCK', of the class "
        r"lock \(cannot pickle .* Instead: make the object inside the function; or put",
        refused,
    )
    assert script(used, TASK, RUN) == "0.0 1.0\n"
    refused = script(used, TASK, RUN)
    assert "LOCK cannot be compared: its value has no digest" in refused and "--keep" in refused
    again = TASK.replace("metrics=ACCURACY", "metrics=ACCURACY, version=2")
    assert script(used, again, RUN) == "0.0 1.0\n"


def test_a_task_may_be_registered_inside_a_function(script, tmp_path):
    inside = "def register(by):\n" + TASK.replace("\n", "\n    ") + "\nregister(2)"
    assert script("def used(): return 2.0", inside.replace("used()", "used() * by"), RUN) == (
        "4.0 5.0\n"
    )
    assert "every bit agrees" in rerun_elsewhere(tmp_path)


COMMAND = """
from ablate import task_command
task_command(
    "toy", "python one.py {shift} {seed}", settings={"shift": 0.0}, metrics=ACCURACY,
)
"""


@pytest.mark.slow
def test_a_command_runs_in_the_scripts_folder_and_counts_by_its_words(script, tmp_path):
    one = "import sys; print('{\"valid_accuracy\": 0, \"test_accuracy\": ' + sys.argv[1] + '}')"
    (tmp_path / "one.py").write_text(one)
    assert script(COMMAND, RUN) == "0.0 1.0\n"
    known = trials(tmp_path)
    assert script("\n\n\n", COMMAND, RUN) == "0.0 1.0\n" and trials(tmp_path) == known
    assert "every bit agrees" in rerun_elsewhere(tmp_path)
    script(COMMAND.replace("one.py", "-O one.py"), RUN)
    assert len(trials(tmp_path)) == 2 * len(known)


TECHNIQUE = """
from ablate.lm.components import Regularizer, register

WEIGHT = 1e-4

@register("regularizer", "mine", config=Config)
class Mine(Regularizer):
    def __init__(self, config): self.config = config

    def penalty(self, passed, model):
        total = sum(w.square().sum() for w in model.parameters())
        return WEIGHT * self.config.shift * total
"""


def language_study(run: str, arm: str) -> str:
    changed = run.replace('{"task": "toy"}', repr(small_studies.BASE))
    return changed.replace('"toy.shift": 1.0', arm)


@pytest.mark.slow
def test_a_technique_of_the_script_is_sent_and_counts_by_its_code(
    script, forgotten, tmp_path, data
):
    (tmp_path / ".ablate").mkdir()
    (tmp_path / ".ablate" / "data").symlink_to(data)
    run = language_study(RUN, '"regularizer.mine.shift": 1.0')
    first = script(TECHNIQUE, run)
    base, own = first.split()
    assert base != own
    known = trials(tmp_path)
    assert script(TECHNIQUE, run) == first and trials(tmp_path) == known
    other = script(TECHNIQUE.replace("WEIGHT = 1e-4", "WEIGHT = 2e-4"), run)
    assert other.split()[0] == base and other.split()[1] != own
    assert len(trials(tmp_path)) == len(known) + 1


def test_a_script_may_have_techniques_that_its_study_does_not_use(script, forgotten):
    assert script("def used(): return 1.0", TASK, TECHNIQUE, RUN) == "1.0 2.0\n"


def test_the_source_is_sent_too(script, tmp_path, monkeypatch):
    """Where there is no script, or another one by now, errors show the lines that run."""
    script("def used(): return 2.0", TASK, RUN)
    (tmp_path / "train.py").write_text("# edited")
    monkeypatch.setattr(linecache, "cache", {})
    monkeypatch.setattr(by_value, "_made_here", {})
    (file,) = files(tmp_path)
    load_modules([str(file)])
    function = tasks.find_kind("toy").function
    assert "run.config.shift + used()" in inspect.getsource(function)
    assert function is not vars(sys.modules["__main__"])["train"]


def test_the_loop_is_checked(script):
    loop = """
    for epoch in run.epochs(total=1):
        yield {"valid_accuracy": 0.0}
        after = 1
"""
    printed = script(TASK.replace("\n    return", f"{loop}    return"), RUN)
    assert "this follows the yield of an epoch" in printed
