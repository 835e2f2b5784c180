"""Tasks of the user's own, from a study's file to its table: shipped examples and small ones."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ablate import run
from ablate.compare.judged import Judged
from ablate.config import tasks
from ablate.errors import AblateError
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.outcome import Status
from ablate.study.file import load
from ablate.study.plan import make_plan
from tests.support import places
from tests.support.tables import written

pytestmark = pytest.mark.usefixtures("without_pages", "without_mlflow")


@pytest.fixture(autouse=True)
def own_tasks(monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))


def example(name: str) -> Path:
    return places.STUDIES / f"{name}.py"


def markdown(workspace, key: str) -> str:
    """The study's table, without the time that it took."""
    record = study_record.read(workspace.store, key)
    summary = Judged(record, journals.read_all(workspace.store, record.trial_ids()))
    return re.sub(r" *· *[\d.]+ ?\w+ of training in all", "", written(summary, "markdown"))


def test_the_trainer_s_example_is_planned_and_its_labels_are_right(tmp_path):
    plan = make_plan(load(example("tiny_trainer")), "smoke", data=str(tmp_path))
    assert [trial.values["tiny_trainer.epochs"] for trial in plan.trials] == [1] * 4
    study = sys.modules["ablate_study.tiny_trainer"]
    for line in study.lines(1, 50):
        tokens = line["input_ids"].tolist()
        assert line["labels"] == (tokens.index(study.FIRST) < tokens.index(study.SECOND))


# A task whose best rate is known: 0.1. Its accuracy rises from epoch to epoch, to 0.9 at most.
HILL = """
from dataclasses import dataclass
from math import log10
from ablate import Arm, Metric, Scale, Search, Study, setting, table, task

@dataclass(frozen=True, kw_only=True)
class HillConfig:
    rate: float = setting(0.001, doc="best at 0.1", low=0)
    height: float = setting(0.9, doc="of the top", low=0, high=1)
    epochs: int = setting(9, doc="steps up", low=1)

@task("hill", config=HillConfig, metrics=(
    Metric("accuracy", better="higher", scale="logit"), Metric("distance")))
def climb(run):
    away = abs(log10(run.config.rate) + 1)
    for epoch in range(1, run.config.epochs + 1):
        luck = run.streams.generator("luck", epoch).initial_seed() % 1000 / 1e6
        share = run.config.height - away / 5 - 0.1 / epoch + luck
        yield {"valid_accuracy": share, "valid_distance": away}
    return {"test_accuracy": share, "test_distance": away}

study = Study(
    question="Is the higher hill higher?",
    base={"task": "hill"},
    base_arm="hill",
    design=table(Arm("hill"), Arm("low", {"hill.height": 0.8}), Arm("high", {"hill.height": 0.95})),
    scales={
        "listed": Scale(seeds=4, changes={"hill.rate": 0.1}),
        "stopped": Scale(seeds=1, search=Search(
            space="hill", trials=20, early_stopping="asha")),
    },
)
"""
HILL_SPACE = """
task = "hill"

["Rate"]
field = "hill.rate"
range = [1e-4, 1.0]
scale = "log"
"""


@pytest.fixture
def hill(tmp_path) -> Path:
    (tmp_path / "hill.toml").write_text(HILL_SPACE)
    (tmp_path / "hill.py").write_text(HILL)
    return tmp_path / "hill.py"


def test_higher_is_better_in_its_table(hill, workspace):
    summary = run(hill, "listed", workspace=str(workspace.folder), local=True)
    verdicts = {arm.name: arm.comparison.verdict for arm in summary.arms if arm.comparison}
    assert verdicts == {"low": "worse", "high": "better"}
    assert [arm.name for arm in summary.arms if arm.best] == ["high"]
    table = markdown(workspace, "hill@listed")
    bold = [line for line in table.splitlines() if "**" in line]
    assert len(bold) == 1 and bold[0].startswith("| high |")
    assert "on logit accuracy of test" in table
    assert "better than every other arm" in table


@pytest.mark.slow
def test_a_search_over_accuracy_finds_the_highest(hill, workspace):
    summary = run(hill, "stopped", workspace=str(workspace.folder), local=True)
    known = journals.read_all(workspace.store, summary.record.trial_ids())
    for search in summary.record.searches:
        tried = [known[name] for name in search.trials]
        last = {j.trial.id: j.epochs[-1].metrics["valid_accuracy"] for j in tried}
        ended = [j.trial.id for j in tried if j.status == Status.COMPLETED]
        assert search.chosen == max(ended, key=last.__getitem__)
        assert last[search.chosen] == max(last.values()), "no better one was stopped"
        best = known[search.chosen].config["hill.rate"]
        assert 0.02 < best < 0.5, "the best is 0.1"
        assert any(j.status == Status.PRUNED for j in tried)


def changed(hill: Path, old: str, new: str) -> Path:
    assert old in HILL
    hill.write_text(HILL.replace(old, new))
    return hill


WRONG_TASKS = {
    ('@task("hill", config=HillConfig', '@task("Hill", config=HillConfig'): "'Hill' is not in sna",
    ("config=HillConfig", "config=3"): "config = 3 is not allowed",
    ('better="higher"', 'better="hihger"'): "hihger",
    ("metrics=(", "version=0, metrics=("): "version = 0",
    ('low=1)', 'low=1, lowest=2)'): "lowest",
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), WRONG_TASKS)
def test_a_wrong_declaration_names_its_file_and_line(hill, old, new):
    with pytest.raises(AblateError) as error:
        load(changed(hill, old, new))
    assert WRONG_TASKS[old, new] in str(error.value)
    assert re.search(rf'{re.escape(str(hill))}(:|", line )\d+', str(error.value)), error.value


def test_an_edited_function_is_noticed_and_a_new_version_is_run(hill, workspace):
    def trials() -> set[str]:
        plan = make_plan(load(hill), "listed", data=workspace.data)
        return {trial.id for trial in plan.trials}

    first = trials()
    changed(hill, "away / 5", "away / 6")
    assert trials() == first, "the text is no part of an id"
    changed(hill, "metrics=(", "version=2, metrics=(")
    assert not trials() & first
