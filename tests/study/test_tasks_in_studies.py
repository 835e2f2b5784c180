"""Studies of a task of one's own: how they are planned, and what is refused."""

from dataclasses import dataclass, make_dataclass, replace

import pytest

from ablate import Arm, Metric, Scale, Search, Stage, Study, setting, smoke, table, task
from ablate.config import tasks
from ablate.errors import ConfigError, StudyError
from ablate.study.file import load
from ablate.study.plan import make_plan
from ablate.study.searches import plan_search_trial

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


RATES = """
task = "sums"

["Rate"]
field = "sums.rate"
range = [0.2, 0.4]
"""


def test_a_smoke_scale_has_one_epoch_and_a_short_search(sums, tmp_path):
    (tmp_path / "rates.toml").write_text(RATES)
    search = Search(space=str(tmp_path / "rates.toml"), trials=9, repeats=3)
    scales = {"listed": smoke(Scale(seeds=3)), "tuned": smoke(Scale(seeds=3, search=search))}
    study = replace(sums, scales=scales)
    listed = make_plan(study, "listed", data=str(tmp_path))
    assert [trial.values["sums.epochs"] for trial in listed.trials] == [1] * 4
    tuned = make_plan(study, "tuned", data=str(tmp_path))
    assert [search.words.trials for search in tuned.searches] == [2, 2]
    trial = plan_search_trial(tuned, tuned.searches[0], {"sums.rate": 0.3}, 0)
    assert trial.config.sections["sums"] == SumsConfig(rate=0.3, epochs=1)


def test_a_smoke_scale_of_a_task_without_epochs_has_fewer_seeds(sums, tmp_path):
    config = make_dataclass("Config", [("rate", float)], frozen=True)
    task("at_once", config=config, metrics=ACCURACY)(lambda run: {})
    base = {"task": "at_once", "at_once.rate": 1}
    study = replace(sums, base=base, design=table(Arm("slow")), scales={"s": smoke(Scale(seeds=3))})
    assert [dict(t.values) for t in make_plan(study, data=str(tmp_path)).trials] == [base, base]


def test_changes_of_a_smoke_scale_replace_what_makes_it_brief(sums, tmp_path):
    study = replace(sums, scales={"s": smoke(Scale(seeds=1), changes={"sums.rate": 0.9})})
    first = make_plan(study, data=str(tmp_path)).trials[0]
    assert first.values == {"task": "sums", "sums.rate": 0.9}


def test_a_recipe_of_a_task_is_a_base(sums, tmp_path):
    (tmp_path / "rates.toml").write_text(RATES.replace("range = [0.2, 0.4]", "value = 0.3"))
    study = replace(sums, base=str(tmp_path / "rates.toml"))
    rates = [trial.config.sections["sums"].rate for trial in make_plan(study, data="").trials[:2]]
    assert rates == [0.3, 0.5]


def test_stages_need_the_weights_of_a_language_model(sums, tmp_path):
    scale = Scale(stages=(Stage("finetune", {"sums.rate": 0.1}),))
    with pytest.raises(StudyError, match="'finetune' builds on the weights of a language model"):
        make_plan(replace(sums, scales={"laptop": scale}), data=str(tmp_path))
    with pytest.raises(StudyError, match="'ensemble' builds on the weights"):
        make_plan(replace(sums, scales={"laptop": Scale(ensemble=True)}), data=str(tmp_path))


def test_evaluators_cannot_measure_it(sums, tmp_path):
    study = replace(sums, measure={"evaluator": "mixture_use"})
    with pytest.raises(StudyError, match=r"sums: measure = .* the arms are of the task 'sums'"):
        make_plan(study, data=str(tmp_path))


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
    (trial,) = make_plan(study, data=str(tmp_path)).trials
    assert trial.modules == (str(file),)
