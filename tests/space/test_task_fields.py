"""Spaces over the fields of a task that a study registers: `task = "..."` above the rows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ablate.config import tasks
from ablate.config.fields import setting
from ablate.config.metrics import Metric
from ablate.config.tasks import task
from ablate.errors import SpaceError
from ablate.space.space import load
from tests.support.spaces import written

SPACE = """\
task = "line"

["Rate"]
field = "line.rate"
range = [1e-3, 1.0]
scale = "log"

["Steps"]
field = "line.steps"
choices = [2, 4]
when = "line.shuffle = true"
"""


@dataclass(frozen=True, kw_only=True)
class LineConfig:
    rate: float = setting(0.1, doc="learning rate", low=0, high=1)
    steps: int = setting(4, doc="passes", low=1)
    shuffle: bool = setting(False, doc="another order in every pass")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    task("line", config=LineConfig, metrics=Metric("error"))(lambda run: {})


def test_rows_set_a_tasks_fields(tmp_path):
    loaded = load(written(tmp_path, SPACE))
    loaded.check()
    assert loaded.fields == {"line.rate", "line.steps"}

    def sample(shuffle):
        base = {"line.shuffle": shuffle}
        return loaded.sample(lambda row: row.domain.ends[-1], base=base)

    assert sample(True) == {"line.rate": 1.0, "line.steps": 4}
    assert sample(False) == {"line.rate": 1.0}


WRONG = {
    ('task = "line"', "task = 3"): ":1: task = 3 is not allowed. Expected: text.",
    ('"line.rate"', '"lin.rate"'): ":4: row 'Rate': field 'lin.rate': unknown task 'lin'. "
    "Did you mean 'line'?",
    ('"line.rate"', '"optimizer.learning_rate"'): "unknown task 'optimizer'. Expected one of: line",
    ('"line.rate"', '"line.rat"'): ":3: row 'Rate': line: unknown field 'rat'. "
    "Did you mean 'rate'?",
    ('"line.rate"', '"line"'): "field = 'line' is not allowed. Expected: 'line.<field>'",
    ("[1e-3, 1.0]", "[1e-3, 2.0]"): "line.rate = 2.0 is not allowed. Expected: number from 0 to 1.",
    ("[2, 4]", "[0, 4]"): "line.steps = 0 is not allowed. Expected: whole number, at least 1.",
    ("line.shuffle = true", "backbone = lstm"): ":11: row 'Steps': when: unknown row or field "
    "'backbone'.",
    ("shuffle = true", "shufle = true"): ":8: row 'Steps': when: line: unknown field 'shufle'. "
    "Did you mean 'shuffle'?",
    ("shuffle = true", "shuffle = 3"): ":8: row 'Steps': when: line.shuffle = 3 is not allowed.",
    ('task = "line"\n', ""): 'task has task = "..." instead.',
}


@pytest.mark.parametrize(("old", "new"), WRONG)
def test_wrong_names_and_values_are_refused(tmp_path, old, new):
    with pytest.raises(SpaceError) as error:
        load(written(tmp_path, SPACE.replace(old, new))).check()
    assert WRONG[old, new] in str(error.value)


def test_a_task_that_no_study_has_registered_is_named(tmp_path):
    with pytest.raises(
        SpaceError, match=r"unknown task 'lime'. Did you mean 'line'\?.*--code STUDY_FILE"
    ):
        load(written(tmp_path, SPACE.replace("line", "lime"))).check()
