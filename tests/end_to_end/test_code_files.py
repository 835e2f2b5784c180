"""Tasks that no study file registers, with Ray: of imported modules and of scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.store import journal as journals
from ablate.store.store import Store
from tests.end_to_end.conftest import PATIENCE
from tests.support import small_studies

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

WORDS = """
from dataclasses import dataclass

import ablate
from ablate import Arm, Metric, Scale, Study, setting, table, task
"""
TASK = """
@dataclass(frozen=True, kw_only=True)
class Config:
    shift: float = setting(0.0, doc="added to the seed")


@task("toy", config=Config, metrics=Metric("accuracy", better="higher"))
def train(run):
    return {"valid_accuracy": 0.0, "test_accuracy": scaled(run.config.shift + run.seed)}
"""
STUDY = """
study = Study(
    question="Does it arrive?",
    base={"task": "toy"},
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"toy.shift": 1.0})),
    scales={"s": Scale(seeds=1)},
)
"""
SCALED = """
def scaled(value):
    return FACTOR * value
"""
RUN = """
summary = ablate.run(study, workers=1)
print(*(arm.cells["test"].mean for arm in summary.arms))
"""


def journals_of(folder: Path) -> list[journals.Journal]:
    return list(journals.read_all(Store(str(folder / ".ablate" / "store"))).values())


def python(folder: Path, *arguments: str) -> str:
    """What Python prints in this folder; it succeeds, and says nothing else."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_a_study_file_may_import_its_task(place) -> None:
    """The task's module is elsewhere, and what that module imports is beside the study."""
    (place.folder / "library").mkdir()
    task = f"{WORDS}\nfrom scaling import scaled\n{TASK}"
    (place.folder / "library" / "toy_task.py").write_text(task)
    place.write("scaling.py", f"FACTOR = 2.0\n{SCALED}")
    place.write("asked.py", f"{WORDS}\nimport toy_task\n{STUDY}")
    path = {"PYTHONPATH": f"{place.folder / 'library'}{os.pathsep}{place.folder}"}
    place.ablate("study", "asked.py", "--workers", "1", env=path).succeeded()
    first, _ = journals.read_all(place.store).values()
    assert "toy_task.py" in first.attempts[-1].code
    assert first.trial.modules == (str(place.folder / "asked.py"),)
    assert {*first.attempts[-1].closure["code"]} == {"toy_task.py", "scaling.py"}
    place.ablate("rerun", first.trial.id, env=path).succeeded()
    again = place.ablate("study", "asked.py", "--local", env=path)
    assert "nothing is left to do" in again.out


SHRINKING = """
from dataclasses import dataclass
from ablate.lm.components import Regularizer, register, setting

@dataclass(frozen=True, kw_only=True)
class Config:
    rate: float = setting(0.0, doc="of shrinking", low=0)

@register("regularizer", "shrinking", config=Config)
class Shrinking(Regularizer):
    def __init__(self, config):
        self.config = config
"""
ENDS = """
from dataclasses import dataclass
from optuna.samplers import GridSampler
from ablate.lm.components import register, setting

@dataclass(frozen=True, kw_only=True)
class Config:
    share: float = setting(1.0, doc="of the upper end")

@register("sampler", "ends", config=Config)
def ends(config, seed, space):
    rate = space["Rate"]
    return GridSampler({"Rate": [rate.low, config.share * rate.high]}, seed=0)
"""
TUNED = f"""
from ablate import Arm, Scale, Search, Study, table
import shrinking

study = Study(
    question="Does it arrive?",
    base={ {**small_studies.BASE, "corpus.train_tokens": 800, "corpus.eval_tokens": 150}!r},
    base_arm="a",
    design=table(Arm("a", {{"regularizer.shrinking.rate": 0.5}})),
    scales={{"s": Scale(seeds=1, search=Search(
        space="rate.toml", trials=2, sampler="ends", options={{"share": 0.5}}
    ))}},
    techniques=("ends.py",),
)
"""


def test_a_study_file_may_import_a_technique_and_search_with_a_sampler_of_its_own(place) -> None:
    place.write("shrinking.py", SHRINKING)
    place.write("ends.py", ENDS)
    place.write("rate.toml", small_studies.RATE)
    place.write("asked.py", TUNED)
    place.ablate("study", "asked.py", "--workers", "2").succeeded()
    made = journals.read_all(place.store).values()
    rates = [j.trial.values["optimizer.learning_rate"] for j in made if j.trial.stage == "search"]
    assert sorted(rates) == [1e-3, 5.0], "the ends that the sampler and its option make"
    first = next(journal for journal in made if journal.trial.stage == "train")
    assert [Path(file).name for file in first.trial.modules] == ["ends.py", "asked.py"]
    assert first.attempts[-1].code.keys() == {"shrinking.py"}
    place.ablate("rerun", first.trial.id).succeeded()


def test_a_script_may_run_a_study_of_its_own_task(place) -> None:
    """Without a guard: it is not executed again on a worker, where its argument is known."""
    (place.folder / "library").mkdir()
    (place.folder / "library" / "scaling.py").write_text(SCALED.replace("FACTOR", "10"))
    script = [
        "import sys",
        "sys.path.insert(0, 'library')",
        "from scaling import scaled as scaled_by_ten",
        WORDS,
        "FACTOR = float(sys.argv[1])",
        "print('executed')",
        TASK.replace("scaled(", "FACTOR * scaled_by_ten("),
        STUDY,
        RUN,
    ]
    place.write("train.py", "\n".join(script))
    assert python(place.folder, "train.py", "0.5") == "executed\n5.0 10.0\n"
    first, _ = journals_of(place.folder)
    (file,) = first.trial.modules
    assert Path(file).name == "train.pickle"
    again = ("rerun", first.trial.id, "--workspace", ".ablate")
    ended = place.ablate(*again, env={"PYTHONPATH": "library"})
    assert "every bit agrees" in ended.out, ended
