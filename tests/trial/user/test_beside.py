"""Modules beside a study's file: found as `python FILE` finds them, and never another's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.config import tasks
from ablate.errors import AblateError, StudyError
from ablate.store import journal as journals
from ablate.store.store import Store
from ablate.study.file import load
from ablate.trial.provenance import trust
from ablate.trial.run import load_modules
from ablate.trial.user import beside

STUDY = """
from dataclasses import dataclass
from ablate import Arm, Metric, Scale, Study, setting, table, task
from cnn_beside import net

@dataclass(frozen=True, kw_only=True)
class Config:
    shift: float = setting(0.0, doc="added")

@task("beside", config=Config, metrics=Metric("accuracy", better="higher"))
def train(run):
    from late_beside import more
    return {"valid_accuracy": 0.0, "test_accuracy": net() + more() + run.config.shift}

study = Study(
    question="?", base={"task": "beside"}, base_arm="a",
    design=table(Arm("a"), Arm("b", {"beside.shift": 1.0})), scales={"s": Scale(seeds=1)},
)
"""


@pytest.fixture(autouse=True)
def restored(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(beside, "_modules", {})
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    before = set(sys.modules)
    yield
    for name in sys.modules.keys() - before:
        if "_beside" in name or name.startswith("ablate_user."):  # a library is loaded once
            del sys.modules[name]


def study_in(folder: Path, number: int = 1) -> Path:
    folder.mkdir()
    (folder / "cnn_beside.py").write_text("import parts_beside\ndef net(): return parts_beside.ONE")
    (folder / "parts_beside.py").write_text(f"ONE = {number}")
    (folder / "late_beside.py").write_text("def more(): return 0.5")
    (folder / "asked.py").write_text(STUDY)
    return folder / "asked.py"


def test_a_study_imports_modules_beside_its_file(tmp_path):
    assert load(study_in(tmp_path / "a")).name == "asked"


def test_modules_of_one_name_beside_two_files_do_not_mix(tmp_path):
    first, second = study_in(tmp_path / "a"), study_in(tmp_path / "b", 2)
    load(first)
    load(first)
    with pytest.raises(StudyError) as caught:
        load(second)
    said = str(caught.value)
    assert f"{second}: it imports the module 'cnn_beside' of its folder" in said
    assert str(tmp_path / "a" / "cnn_beside.py") in said and "Instead: rename one" in said


def test_a_module_that_is_imported_in_a_function_does_not_mix_either(tmp_path):
    load(study_in(tmp_path / "a"))
    assert "late_beside" not in sys.modules
    other = tmp_path / "b" / "other.py"
    other.parent.mkdir()
    (other.parent / "late_beside.py").write_text("def more(): return 9")
    other.write_text("import late_beside")
    with pytest.raises(StudyError, match="'late_beside'"):
        load(other)


def test_a_loaded_module_of_that_name_is_named(tmp_path):
    file = tmp_path / "asked.py"
    file.write_text("import colorsys, wave\n")
    (tmp_path / "wave.py").touch()
    import wave

    with pytest.raises(StudyError, match=f"another one of that name: {wave.__file__}"):
        load(file)


def test_a_copy_of_a_trusted_file_does_not_bring_the_modules_beside_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(trust, "_accepted", set())
    monkeypatch.setattr(trust, "_places", set())
    own = study_in(tmp_path / "own")
    trust.remember([own])
    monkeypatch.setattr(trust, "_places", set())
    planted = study_in(tmp_path / "planted")
    mark = tmp_path / "mark"
    (planted.parent / "cnn_beside.py").write_text(f"open({str(mark)!r}, 'w')\nnet = None")
    with pytest.raises(AblateError, match="No module named 'cnn_beside'"):
        load_modules([str(planted)])
    assert not mark.exists()
    load_modules([str(own)])
    assert "beside" in tasks._kinds


@pytest.mark.slow
def test_a_study_runs_and_is_repeated_with_modules_beside_it(tmp_path, monkeypatch, capsys):
    from ablate import run
    from ablate.commands.rerun import rerun_trial
    from ablate.store.workspace import open_workspace

    file = study_in(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    summary = run(file, local=True, quiet=True)
    assert [arm.cells["test"].mean for arm in summary.arms] == [1.5, 2.5]
    known = journals.read_all(Store(str(tmp_path / ".ablate" / "store")))
    assert rerun_trial(next(iter(known)), open_workspace()) == 0
