"""What goes wrong, as its user meets it: one clear message, an exit status, nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ablate.cli import main
from ablate.commands.trial import run_showing
from ablate.store import journal as journals
from ablate.store import leftovers
from ablate.store.workspace import Workspace, held

pytestmark = pytest.mark.usefixtures("without_pages", "without_mlflow")
STUDY = """
from ablate import Arm, Scale, Study, table

study = Study(
    question="Does it survive?",
    base={{
        "corpus.train_tokens": 600, "corpus.eval_tokens": 300, "embedding.size": 8,
        "backbone": "lstm", "backbone.num_layers": 1, "backbone.units": 8, "head": "softmax",
        "optimizer": "sgd", "optimizer.learning_rate": 1.0, "training.batch_size": 4,
    }},
    base_arm="a",
    design=table(Arm("a"), Arm("b", {changes})),
    scales={{"s": Scale(corpus="{corpus}", seeds=3)}},
    {more}
)
"""


def study_in(
    folder: Path, changes: str = '{"training.window": 33}', corpus="grammar", more=""
) -> str:
    file = folder / "asked.py"
    file.write_text(STUDY.format(changes=changes, corpus=corpus, more=more))
    return str(file)


NOWHERE = ("components", "spaces")  # commands that read no workspace


class Asked:
    """`ablate` in this process, on one workspace."""

    def __init__(self, workspace: Workspace, capsys) -> None:
        self.workspace, self.capsys = workspace, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        locations = ["--workspace", str(self.workspace.folder)]
        status = main([*arguments, *([] if arguments[0] in NOWHERE else locations)])
        out, err = self.capsys.readouterr()
        assert "Traceback" not in out + err
        return status, out, err


@pytest.fixture
def ablate(workspace, capsys) -> Asked:
    return Asked(workspace, capsys)


@pytest.mark.slow
def test_a_loss_that_is_no_number_is_counted_and_never_averaged(ablate, tmp_path):
    wrong = '{"optimizer.learning_rate": 1e38, "training.clip": 1e38}'
    status, out, err = ablate("study", study_in(tmp_path, wrong), "--local")
    assert status == 5
    assert "3 of 3 (3 diverged)" in out
    assert "diverged" in err and "3 of 6 trials" in err
    assert "nan" not in out.lower().replace("finance", "")


@pytest.mark.parametrize(
    ("option", "value"), [("--workers", "2"), ("--cluster", "ray.example:6379")]
)
def test_one_process_with_more_than_one_worker_or_a_cluster(ablate, tmp_path, option, value):
    """It would run one trial at a time here, and nothing would say so."""
    status, _, err = ablate("study", study_in(tmp_path), "--local", option, value)
    assert status == 2
    assert "--local" in err and option in err and "Leave out one of the two" in err
    assert journals.read_all(ablate.workspace.store) == {}


@pytest.fixture
def tiny_disk(tmp_path: Path):
    """A file system of one megabyte."""
    path = tmp_path / "tiny"
    path.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a tiny file system needs root")
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a tiny file system")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_the_same_command_goes_on(ablate, tmp_path, tiny_disk):
    (tiny_disk / "ballast").write_bytes(b"x" * 900_000)
    store = ["--store", str(tiny_disk / "store")]
    file = study_in(tmp_path, '{"backbone.units": 64, "embedding.size": 64}')
    status, _, err = ablate("study", file, "--local", *store)
    assert status == 4
    assert "No space left" in err and str(tiny_disk) in err
    (tiny_disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", str(tiny_disk)], check=True)
    assert ablate("study", file, "--local", *store)[0] == 0


def test_two_drivers_of_one_study(ablate, tmp_path):
    with held(ablate.workspace, "asked@s"):
        status, _, err = ablate("study", study_in(tmp_path), "--local")
    assert status == 4
    assert f"process {os.getpid()}" in err


@pytest.mark.slow
def test_a_techniques_exception_shows_the_users_frames_and_none_of_ours(ablate, tmp_path):
    (tmp_path / "broken.py").write_text(
        "from dataclasses import dataclass\n"
        "from ablate.lm.components import Regularizer, register, setting\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class C:\n"
        "    rate: float = setting(0.0, doc='rate')\n"
        "@register('regularizer', 'broken', config=C)\n"
        "class Broken(Regularizer):\n"
        "    def __init__(self, config): pass\n"
        "    def mask(self, site, x_TBH, chance):\n"
        "        return x_TBH @ x_TBH.nonsense\n"
    )
    changes = '{"regularizer.broken.rate": 0.5}'
    file = study_in(tmp_path, changes, more='techniques=("broken.py",),')
    status, _, err = ablate("study", file, "--local")
    assert status == 5
    assert "broken.py" in err and "x_TBH.nonsense" in err
    assert "ablate/lm/model/language_model.py" not in err and "ablate/trial" not in err
    assert err.count("x_TBH.nonsense") == 1  # three seeds, told once


EXITING = """
import sys
from dataclasses import dataclass
from ablate.lm.model.regularizer import Regularizer
from ablate.config.fields import setting
from ablate.config.registry import register
{early}
@dataclass(frozen=True, kw_only=True)
class C:
    rate: float = setting(0.0, doc='rate')
@register('regularizer', 'exiting', config=C)
class Exiting(Regularizer):
    def __init__(self, config): pass
    def mask(self, site, x_TBH, chance):
        sys.exit()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("early", "status"), [("sys.exit()", 8), ("", 5)])
def test_a_technique_that_ends_python_is_an_error_with_its_line(ablate, tmp_path, early, status):
    (tmp_path / "exiting.py").write_text(EXITING.format(early=early))
    changes = '{"regularizer.exiting.rate": 0.5}'
    file = study_in(tmp_path, changes, more='techniques=("exiting.py",),')
    ended, _, err = ablate("study", file, "--local")
    assert ended == status
    line = EXITING.format(early=early).splitlines().index(early or "        sys.exit()") + 1
    assert f"exiting.py:{line}: sys.exit()" in err or f'exiting.py", line {line}' in err


@pytest.mark.slow
def test_the_next_study_would_remove_the_folder_of_a_killed_rerun(ablate, tmp_path, monkeypatch):
    """The folder is removed by then: what is looked at is a copy, whose owner nobody is."""

    def repeat(trial, store, data):
        shutil.copytree(store.folder, temporary / f"{store.folder.name}-of-a-killed-one")
        return run_showing(trial, store, data)

    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ablate("study", study_in(tmp_path), "--local")
    trial = next(iter(journals.read_all(ablate.workspace.store)))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr("ablate.commands.rerun.run_showing", repeat)
    assert ablate("rerun", trial)[0] == 0
    assert len(list(temporary.iterdir())) == 1
    leftovers.sweep(ablate.workspace.folder, [temporary])
    assert list(temporary.iterdir()) == []
