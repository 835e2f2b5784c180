"""Kinds of tasks: registering one, and the configs that its values resolve to."""

from dataclasses import dataclass
from functools import partial

import pytest

from ablate.config import tasks
from ablate.config.fields import setting
from ablate.config.identity import make_trial
from ablate.config.merge import merge
from ablate.config.metrics import BITS, BITS_PER_BYTE, PERPLEXITY, Metric
from ablate.config.resolve import resolve
from ablate.config.tasks import task
from ablate.errors import ConfigError
from ablate.lm.data.published import PUBLISHED
from ablate.lm.sections import FIXED_VOCABULARY

ACCURACY = Metric("accuracy", better="higher")


@dataclass(frozen=True, kw_only=True)
class ShapesConfig:
    rate: float = setting(0.1, doc="learning rate", low=0)
    flip: bool = setting(False, doc="mirror the images")


def nothing(run):
    return {}


@pytest.fixture(autouse=True)
def shapes(monkeypatch):
    """Register the task `shapes` for one test."""
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    task("shapes", config=ShapesConfig, metrics=ACCURACY)(nothing)


def test_its_values_are_those_of_its_config():
    config = resolve({"task": "shapes", "shapes.rate": 0.5})
    assert config.sections["shapes"] == ShapesConfig(rate=0.5)
    assert config.flat == {"task": "shapes", "shapes.rate": 0.5, "shapes.flip": False}
    assert resolve(config.flat) == config
    assert config.metrics == (ACCURACY,)
    assert config.kind.function is nothing
    assert config.kind.where[0] == __file__


def test_an_id_has_the_tasks_name_its_version_and_what_is_not_default():
    config = resolve({"task": "shapes", "shapes.rate": 0.5, "shapes.flip": False})
    assert config.identity == {"task": {"name": "shapes", "version": 1}, "shapes": {"rate": 0.5}}

    def trial_id(values):
        return make_trial(resolve(values), values=values, seed=1, corpus_digest="").id

    first = trial_id({"task": "shapes"})
    assert trial_id({"task": "shapes", "shapes.flip": False}) == first
    assert trial_id({"task": "shapes", "shapes.flip": True}) != first
    task("shapes", config=ShapesConfig, metrics=ACCURACY, version=2)(nothing)
    assert trial_id({"task": "shapes"}) != first


def test_values_of_another_kind_are_refused():
    with pytest.raises(ConfigError, match=r"'backbone' has no meaning with task = 'shapes'"):
        resolve({"task": "shapes", "backbone": "lstm"})
    with pytest.raises(ConfigError, match=r"'corpus\.name' has no meaning with task = 'shapes'"):
        resolve({"task": "shapes", "corpus.name": "ptb"})
    with pytest.raises(ConfigError, match=r"unknown field 'rat'\. Did you mean 'rate'"):
        resolve({"task": "shapes", "shapes.rat": 1.0})
    with pytest.raises(ConfigError, match=r"unknown task 'shape'\. Did you mean 'shapes'"):
        resolve({"task": "shape"})
    with pytest.raises(ConfigError, match="unknown slot or section 'shapes'"):
        resolve({"shapes.rate": 1.0, "backbone": "lstm"})


def test_another_kind_of_task_clears_what_it_has_not():
    merged = merge({"backbone": "lstm", "corpus.name": "ptb"}, {"task": "shapes"})
    assert merged == {"task": "shapes"}
    merged = merge({"backbone": "lstm", "corpus.name": "ptb"}, {"model": "ngram"})
    assert merged == {"model": "ngram", "corpus.name": "ptb"}


def test_a_name_belongs_to_one_file():
    with pytest.raises(ConfigError, match=r"'shapes' is already registered by .*test_tasks\.py"):
        task("shapes", config=ShapesConfig, metrics=ACCURACY, where=("other.py", 1))(nothing)
    with pytest.raises(ConfigError, match="'language' is already registered by ablate"):
        task("language", config=ShapesConfig, metrics=ACCURACY)(nothing)


def executed(file: str, module: str, version: int = 1) -> None:
    """Register the task `again` in a file or a cell of this module."""
    text = "task('again', config=C, metrics=M, version=V)(lambda run: {})"
    names = {"task": task, "C": ShapesConfig, "M": ACCURACY, "V": version, "__name__": module}
    exec(compile(text, file, "exec"), names)


def test_a_task_that_is_registered_again_where_it_was_replaces_the_one_before():
    for number, (file, module) in enumerate(
        [("cell 1", "__main__"), ("cell 1", "__main__"), ("cell 2", "__main__")], start=1
    ):
        executed(file, module, version=number)
        assert tasks.find_kind("again").version == number
    with pytest.raises(ConfigError, match=r"other\.py:1: the task 'again' is already .*cell 2:1"):
        executed("other.py", "other")
    assert tasks.find_kind("again").version == 3


@pytest.mark.parametrize(
    "wrong, named",
    [
        ({"name": "Shapes"}, "snake_case"),
        ({"config": dict}, "a frozen dataclass"),
        ({"metrics": ()}, "at least one Metric"),
        ({"name": "head"}, "a task cannot be called 'head'.*such as 'my_head'"),
        ({"name": "training"}, "a task cannot be called 'training'"),
        ({"name": "model"}, "a task cannot be called 'model'"),
        ({"name": "ngram"}, "'ngram' is already registered by ablate"),
        ({"metrics": ("accuracy",)}, "at least one Metric"),
        ({"metrics": "accuracy"}, r"metrics = \('accuracy',\) .* such as Metric\(\"accuracy\""),
        ({"metrics": None}, "at least one Metric"),
        ({"metrics": (ACCURACY, Metric("accuracy"))}, "metrics = .* a name for each of its own"),
        ({"version": 0}, "a whole number"),
    ],
)
def test_a_wrong_registration_is_refused(wrong, named):
    words = {"name": "other", "config": ShapesConfig, "metrics": ACCURACY, **wrong}
    with pytest.raises(ConfigError, match=named):
        task(**words)(nothing)


def test_only_a_function_can_be_a_task():
    with pytest.raises(ConfigError, match=r"@task = functools\.partial.* Expected: a function"):
        task("other", config=ShapesConfig, metrics=ACCURACY)(partial(nothing))


LSTM = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd"}


@pytest.mark.parametrize("model", [{"model": "ngram"}, LSTM])
def test_the_level_says_which_metric_judges_and_all_report_bits_per_byte(model):
    bits = {"character": BITS, "byte": BITS_PER_BYTE, "bpe": BITS_PER_BYTE}
    assert resolve(model).metrics == (PERPLEXITY, BITS_PER_BYTE)
    for level, first in bits.items():
        metrics = resolve({**model, "corpus.level": level}).metrics
        assert metrics[0] == first and BITS_PER_BYTE in metrics


@pytest.mark.parametrize("changed", [{"lowercase": True}, {"min_count": 2}, {"level": "tree"}])
def test_a_text_that_is_changed_before_it_is_read_has_no_bits_per_byte(changed):
    values = {f"corpus.{name}": value for name, value in changed.items()}
    assert resolve({"model": "ngram", **values}).metrics == (PERPLEXITY,)


@pytest.mark.parametrize("name", FIXED_VOCABULARY)
def test_words_of_a_text_with_a_fixed_vocabulary_have_no_bits_per_byte(name):
    values = {"model": "ngram", "corpus.name": name}
    assert name in PUBLISHED and resolve(values).metrics == (PERPLEXITY,)
    assert BITS_PER_BYTE in resolve({**values, "corpus.level": "byte"}).metrics
