"""The code of a task that a script registers, as a file of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ablate.config import tasks
from ablate.study.statements import Written, literal, written
from tests.support import small_studies

HEAD = """
from dataclasses import dataclass
import ablate
from ablate import Arm, Metric, Scale, Study, setting, table, task
ACCURACY = Metric("accuracy", better="higher")

@dataclass(frozen=True, kw_only=True)
class Config:
    shift: float = setting(0.0, doc="added")
"""
TASK = """
@task("toy", config=Config, metrics=ACCURACY)
def train(run):
    return {"valid_accuracy": 0.0, "test_accuracy": scaled(run.config.shift)}
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

    def execute(*parts: str, local: bool = True) -> str:
        file = tmp_path / "train.py"
        file.write_text("\n".join(["import ablate.errors", f"LOCAL = {local}", *parts]))
        main = ModuleType("__main__")
        main.__file__ = str(file)
        monkeypatch.setitem(sys.modules, "__main__", main)
        exec(compile(file.read_text(), str(file), "exec"), vars(main))
        return capsys.readouterr().out

    return execute


def only(text: str) -> Written:
    [statement] = written(text)
    return statement


def copies(folder: Path) -> list[str]:
    return [file.read_text() for file in (folder / ".ablate" / "code").glob("*/*.py")]


def test_a_statement_knows_its_names():
    made = only("@wrapped(\n  by)\ndef f(x, y=Z):\n    model = x\n    return g(model) + int(y)\n")
    assert made.binds == {"f"} and made.lines == range(1, 6)
    assert made.reads == {"wrapped", "by", "Z"}
    assert made.later == {"g", "int"}, "its own variables are no names of the module"
    made = only("class A(B):\n    size: Size = C\n    def f(self): return D\n")
    assert (made.binds, made.reads, made.later) == ({"A"}, {"B", "Size", "C"}, {"D"})
    assert only("import numpy.linalg as la").binds == {"la"}
    assert [each.text for each in written("a = 1; b = a")] == ["a = 1", "b = a"]
    assert [each.text for each in written("if __name__ == '__main__':\n    run(\n  1)")] == [
        "run(1)"
    ]
    assert written("%matplotlib inline") == []


def test_plain_values_are_written_down_and_secrets_are_not():
    from argparse import Namespace

    assert literal("x", [1, {"a": (None, 2.5)}]) == "x = [1, {'a': (None, 2.5)}]"
    assert literal("args", Namespace(rate=0.1)) == (
        "from argparse import Namespace; args = Namespace(**{'rate': 0.1})"
    )
    for other in (float("nan"), object(), [object()], "a" * 20_000, range(3)):
        assert literal("x", other) is None
    assert literal("password", "not so long ago") is None


@pytest.mark.slow
def test_what_the_task_needs_and_nothing_else_is_copied(script, tmp_path):
    parts = [
        HEAD,
        "print('once'); FACTOR = 2.0",
        "class Net:\n    def __init__(self, by): self.by = by",
        "NET = Net(FACTOR)\nunused = object()",
        "def scaled(x): return NET.by * x",
        TASK,
        RUN,
    ]
    assert script(*parts) == "once\n0.0 2.0\n"
    [text] = copies(tmp_path)
    assert text.startswith("# The task 'toy', copied from train.py")
    assert "NET = Net(FACTOR)" in text and "unused" not in text and "once" not in text
    parts[1] = parts[1].replace("2.0", "3.0")
    assert "train.py was edited: 1 trial of a, 1 trial of b" in script(*parts)
    assert len(copies(tmp_path)) == 2


COMMAND = """
from ablate import task_command
task_command(
    "toy", "python one.py {shift} {seed}", settings={"shift": 0.0},
    metrics=Metric("accuracy", better="higher"),
)
"""


@pytest.mark.slow
def test_a_command_runs_in_the_scripts_folder(script, tmp_path):
    one = "import sys; print('{\"valid_accuracy\": 0, \"test_accuracy\": ' + sys.argv[1] + '}')"
    (tmp_path / "one.py").write_text(one)
    assert script(HEAD, COMMAND, RUN) == "0.0 1.0\n"
    [text] = copies(tmp_path)
    assert f"__file__ = {str(tmp_path / 'train.py')!r}" in text


TECHNIQUE = """
from ablate.components import Regularizer, register

@register("regularizer", "mine", config=Config)
class Mine(Regularizer):
    pass
"""


def language_study(run: str, arm: str, **scale: Any) -> str:
    changed = run.replace('{"task": "toy"}', repr(small_studies.BASE))
    stages = ", ".join(f"{name}={value}" for name, value in scale.items())
    return changed.replace('"toy.shift": 1.0', arm).replace("seeds=1", f"seeds=1, {stages}")


@pytest.mark.parametrize(
    "study",
    [
        language_study(RUN, '"regularizer.mine.shift": 1.0'),
        language_study(RUN, "", stages="(ablate.Stage('more', {'regularizer.mine.shift': 1.0}),)"),
    ],
    ids=["of an arm", "of a stage"],
)
def test_a_technique_of_the_script_is_refused_before_anything_trains(script, forgotten, study):
    refused = script(HEAD, TECHNIQUE, study, local=False)
    assert "train.py: the regularizer 'mine' cannot be sent to workers: this script" in refused
    assert "Instead: put it into a module, and import that here; or run in this process" in refused


def test_a_script_may_have_techniques_that_its_study_does_not_use(script, forgotten, tmp_path):
    assert script(HEAD, TASK, TECHNIQUE, "def scaled(x): return x", RUN) == "0.0 1.0\n"


INSIDE = "def register():\n" + TASK.replace("\n", "\n    ") + "\nregister()"
HIDDEN = "globals()['scaled'] = object()"
FAILS = """
def made(): return KEPT["by"]
KEPT = {"by": object()}
scaled = made()
del made
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts, why",
    [
        ([INSIDE], "it is registered inside a function"),
        ([HIDDEN, TASK], "no statement at the top gives 'scaled', which it needs"),
        ([FAILS, TASK], r"its code does not stand alone:\n.*\n.*'made' is not defined"),
    ],
    ids=["inside", "hidden", "fails"],
)
def test_what_cannot_be_copied_is_refused_with_the_way_out(parts, why, script):
    printed = script(HEAD, *parts, RUN, local=False)
    where = r"train\.py:\d+: the task 'toy' cannot be sent to workers: "
    assert re.search(f"(?s){where}{why}.* Instead: put it into a module", printed)


@pytest.mark.slow
def test_a_copy_that_would_run_a_study_is_refused(script):
    scaled = "def scaled(x): return summary if x > 9 else x"
    run = RUN.replace("try:\n    ", "").partition("except")[0]
    printed = script(HEAD, scaled, TASK, run, "LOCAL = False", RUN)
    assert "needs a statement that runs a study" in printed
