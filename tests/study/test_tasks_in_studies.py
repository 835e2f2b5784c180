"""Studies of a task of one's own: how they are planned, and what is refused."""

from dataclasses import dataclass, replace

import pytest

from ablate import Arm, Metric, Scale, Stage, Study, setting, table, task
from ablate.config import tasks
from ablate.errors import ConfigError, StudyError
from ablate.study.file import load
from ablate.study.plan import make_plan

ACCURACY = Metric("accuracy", better="higher", shown="accuracy in %", factor=100)
SECONDS = Metric("seconds_taken", shown="seconds")


@dataclass(frozen=True, kw_only=True)
class SumsConfig:
    rate: float = setting(0.1, doc="learning rate", low=0)
    epochs: int = setting(2, doc="passes", low=1)


@pytest.fixture
def sums(monkeypatch):
    """A study of the task `sums`."""
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    task("sums", config=SumsConfig, metrics=(ACCURACY, SECONDS))(lambda run: {})
    return Study(
        question="?",
        base={"task": "sums"},
        base_arm="slow",
        design=table(Arm("slow"), Arm("fast", {"sums.rate": 0.5})),
        scales={"laptop": Scale(seeds=3)},
        name="sums",
    )


def test_it_is_planned_like_any_other(sums, tmp_path):
    plan = make_plan(sums, data=str(tmp_path))
    assert [trial.values for trial in plan.trials[:2]] == [
        {"task": "sums"},
        {"task": "sums", "sums.rate": 0.5},
    ]
    assert {trial.runner for trial in plan.trials} == {"function"}
    assert len({trial.id for trial in plan.trials}) == 6
    assert (plan.record.corpus, plan.record.level) == ("", "")
    assert plan.record.metric == ACCURACY


def test_a_study_names_the_metric_that_decides_and_others_to_show(sums, tmp_path):
    study = replace(sums, metric="seconds_taken", columns=("accuracy",))
    record = make_plan(study, data=str(tmp_path)).record
    assert record.metric == SECONDS and record.columns == (ACCURACY,)


def test_a_metric_that_is_not_reported_is_refused(sums, tmp_path):
    with pytest.raises(
        StudyError, match=r"sums: unknown metric 'acuracy'\. Did you mean 'accuracy'"
    ):
        make_plan(replace(sums, metric="acuracy"), data=str(tmp_path))
    with pytest.raises(StudyError, match="unknown column 'loss'"):
        make_plan(replace(sums, columns=("loss",)), data=str(tmp_path))


def test_arms_of_two_metrics_are_refused(sums, tmp_path):
    task("other", config=SumsConfig, metrics=SECONDS)(lambda run: {})
    design = table(Arm("slow"), Arm("other", {"task": "other"}))
    with pytest.raises(
        StudyError,
        match="arm 'other': its trials report seconds, and not accuracy in %, which decides",
    ):
        make_plan(replace(sums, design=design), data=str(tmp_path))


def test_stages_need_the_weights_of_a_language_model(sums, tmp_path):
    scale = Scale(stages=(Stage("finetune", {"sums.rate": 0.1}),))
    with pytest.raises(StudyError, match="'finetune' builds on the weights of a language model"):
        make_plan(replace(sums, scales={"laptop": scale}), data=str(tmp_path))
    with pytest.raises(StudyError, match="'ensemble' builds on the weights"):
        make_plan(replace(sums, scales={"laptop": Scale(ensemble=True)}), data=str(tmp_path))


def test_values_of_a_language_model_are_refused(sums, tmp_path):
    design = table(Arm("slow"), Arm("wide", {"backbone.units": 10}))
    with pytest.raises(ConfigError, match=r"'backbone\.units' has no meaning with task = 'sums'"):
        make_plan(replace(sums, design=design), data=str(tmp_path))


def test_a_study_file_that_registers_a_task_travels_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from ablate import Arm, Metric, Scale, Study, setting, table, task\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Config:\n"
        "    rate: float = setting(0.1, doc='rate')\n"
        "@task('mine', config=Config, metrics=Metric('error'))\n"
        "def train(run):\n"
        "    return {'valid_error': run.config.rate, 'test_error': run.config.rate}\n"
        "study = Study(question='?', base={'task': 'mine'}, base_arm='a',\n"
        "    design=table(Arm('a')), scales={'laptop': Scale(seeds=1)})\n"
    )
    study = load(file)
    assert study.techniques == (str(file),)
    (trial,) = make_plan(study, data=str(tmp_path)).trials
    assert trial.modules == (str(file),)
