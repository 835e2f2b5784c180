"""Study files mutated by kind, several hundred: each wrong one is refused with the right words.

And the other way round: a change of anything that determines an outcome makes another trial, and
a change of anything else does not.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ablate.config import SECTIONS
from ablate.errors import AblateError, CombinationError, ConfigError, StudyError, TechniqueError
from ablate.fields import describe
from ablate.plan import make_plan
from ablate.registry import get
from ablate.study_file import load

GOOD = """
from ablate import Arm, Budget, Scale, Search, Stage, Study, table

BASE = {
    "corpus.train_tokens": 5000,
    "embedding.size": 8,
    "backbone": "lstm",
    "backbone.num_layers": 2,
    "backbone.units": (12, 8),
    "head": "doc",
    "head.experts": (2, 1, 0),
    "optimizer": "nt_asgd",
    "optimizer.learning_rate": 5.0,
    "regularizer.weight_drop.rate": 0.2,
    "training.epochs": 2,
}

study = Study(
    question="Which?",
    base=BASE,
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"training.window": 33})),
    scales={
        "small": Scale(
            corpus="grammar",
            seeds=2,
            stages=(Stage("finetune", {"optimizer.trigger": "at_once"}),),
            budget=Budget(trials=9),
        ),
    },
)
"""


def planned(text: str, folder: Path, data: str):
    file = folder / "asked.py"
    file.write_text(text)
    return make_plan(load(file), data=data)


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def with_value(name: str, value: str) -> str:
    """The good study with one more base value (or another one)."""
    lines = [line for line in GOOD.splitlines() if not line.startswith(f'    "{name}":')]
    return "\n".join(lines).replace("BASE = {", f'BASE = {{\n    "{name}": {value},')


def techniques() -> dict[str, type]:
    """Every config of the good study, by the prefix of its values."""
    chosen = {"backbone": "lstm", "head": "doc", "optimizer": "nt_asgd"}
    found = dict(SECTIONS)
    found |= {slot: get(slot, name).config for slot, name in chosen.items()}
    found["regularizer.weight_drop"] = get("regularizer", "weight_drop").config
    return found


def field_mutations():
    """Per field of every config: misspelt, of a wrong type, below, above, not a choice."""
    for prefix, config in techniques().items():
        for info in describe(config):
            name, limits = f"{prefix}.{info.name}", info.limits
            if name == "corpus.name":  # a scale sets it
                continue
            yield with_value(f"{name}x", "1"), rf"unknown field '{info.name}x'.*'{info.name}'"
            place = re.escape(f"{info.name} = ")
            yield with_value(name, "{1: 2}"), rf"{place}.*is not allowed\. Allowed: "
            yield with_value(name, "float('nan')"), rf"{place}nan is not allowed\. Allowed: "
            if limits.choices is not None:
                yield with_value(name, "'nonsense'"), rf"{place}'nonsense'.*Allowed: one of "
                continue
            yield with_value(name, "object()"), rf"{place}.*is not allowed"
            if limits.low is not None:
                wrong = limits.low - 1
                yield with_value(name, f"{wrong:g}"), rf"{place}.*is not allowed"
            if limits.high is not None:
                wrong = limits.high + 1
                yield with_value(name, f"{wrong:g}"), rf"{place}.*is not allowed"
            if "number" in info.type:
                yield with_value(name, "'three'"), rf"{place}'three' is not allowed.*number"
                yield with_value(name, "True"), rf"{place}True is not allowed"


def word_mutations():
    """Per word of a study file: a misspelt keyword, a wrong type."""
    wrong = {
        "Study": ("question", "base", "base_arm", "design", "scales"),
        "Scale": ("corpus", "seeds", "stages", "budget"),
    }
    for word, names in wrong.items():
        for name in names:
            yield GOOD.replace(f"{name}=", f"{name}z=", 1), rf"unknown field of {word} '{name}z'"
            pattern = rf"(\b{name}=)([^\n(]+\(|[^\n]+)"
            text = re.sub(pattern, r"\1object() or \2", GOOD, count=1)
            yield text, rf":\d+: .*{name}.*is not allowed"
    yield changed("trials=9", "trails=9"), r"unknown field of Budget 'trails'.*'trials'"
    yield changed("trials=9", "trials='9'"), r"trials = '9' is not allowed"
    yield changed("seeds=2", "seeds=0"), r"seeds = 0 is not allowed"
    yield changed("seeds=2", "seeds='two'"), r"seeds = 'two' is not allowed"
    yield changed("seeds=2", "seeds=2, threads=0"), r"threads = 0 is not allowed"
    for sampler in ("tpee", "grid"):
        search = f"search=Search(space='x', trials=3, sampler={sampler!r})"
        yield changed("seeds=2", f"seeds=2, {search}"), r"sampler = .*is not allowed.*'tpe'"


def reference_mutations():
    """Whatever names something else: arms, scales, techniques, slots, recipes, corpora."""
    yield changed('base_arm="a"', 'base_arm="aa"'), r"unknown base_arm 'aa'.*Allowed: a, b"
    yield changed('Arm("b"', 'Arm("a"'), r"two arms are called 'a'"
    yield changed("seeds=2", 'seeds=2, arms=["a", "c"]'), r"unknown arm 'c'.*Allowed: a, b"
    yield changed("base=BASE", 'base="takase2018doc_tabel2"'), r"'takase2018doc_table2'"
    yield changed('corpus="grammar"', 'corpus="gramar"'), r"unknown corpus 'gramar'.*'grammar'"
    yield changed('"a")', '"a", published=("M", "v"))'), r"unknown published model 'M'"
    for slot in ("backbone", "head", "optimizer"):
        yield with_value(slot, "'nonsuch'"), rf"unknown {slot} 'nonsuch'.*Allowed: "
    for slot in ("backbones", "heads", "trainin"):
        yield with_value(f"{slot}.x", "1"), rf"unknown slot or section '{slot}'.*Did you mean"
    for name in ("weigth_drop", "variationaldropout", "nonsuch"):
        yield with_value(f"regularizer.{name}.rate", "0.1"), rf"unknown regularizer '{name}'"
    yield changed('{"training.window": 33}', '{"head": "mso"}'), r"unknown head 'mso'.*'mos'"


def combination_mutations():
    """Values that are each allowed, and together make no sense."""
    yield with_value("head.experts", "(2, 0, 0, 1)"), r"arm 'a'.*experts"
    softmax = with_value("head", "'softmax'").replace('    "head.experts": (2, 1, 0),\n', "")
    tied = softmax.replace("BASE = {", 'BASE = {\n    "head.tied": True,')
    yield tied.replace("(12, 8)", "(12, 9)"), r"arm 'a'.*tied.*embedding\.size = 9"
    yield with_value("backbone.units[5]", "3"), r"units has elements"
    yield with_value("training.batch_size", "400"), None  # 5000 tokens in 400 rows: runs


def text_mutations():
    """Not Python, no study, or an exception of the user's own."""
    yield GOOD.replace("study = Study(", "study = Study((", 1), r"asked\.py:\d+: "
    yield GOOD.replace("study = ", "stuyd = ", 1), r"no `study = .*'stuyd'"
    yield "x = 1\n", r"no `study = "
    yield GOOD + "\n1 / 0\n", r"ZeroDivisionError"
    yield GOOD + "\nimport nonsuch_module\n", r"nonsuch_module"


def mutations(make):
    return [pytest.param(*each, id=f"{make.__name__}-{i}") for i, each in enumerate(make())]


WRONG = [
    *mutations(field_mutations),
    *mutations(word_mutations),
    *mutations(reference_mutations),
    *mutations(combination_mutations),
    *mutations(text_mutations),
]


def test_there_are_several_hundred():
    assert len(WRONG) > 250


def test_the_good_study_is_good(tmp_path, data):
    assert len(planned(GOOD, tmp_path, data).trials) == 8


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_study_is_refused_by_name(text, message, tmp_path, data):
    if message is None:
        planned(text, tmp_path, data)
        return
    with pytest.raises(AblateError, match=re.compile(message, re.DOTALL)) as caught:
        planned(text, tmp_path, data)
    assert isinstance(caught.value, AblateError)
    assert "asked.py" in str(caught.value) or "corpus" in str(caught.value)
    assert "ablate/ablate/" not in str(caught.value)


DETERMINING = {
    "embedding.size": "8, 'backbone.units': (12, 8), 'embedding.initial_range': 0.2",
    "optimizer.learning_rate": "6.0",
    "regularizer.weight_drop.rate": "0.3",
    "training.epochs": "3",
    "training.window": "20",
    "training.valid_batch_size": "5",
    "corpus.train_tokens": "5001",
    "head.experts": "(1, 2, 0)",
    "head.latent_activation": "'none'",
    "regularizer.variational_dropout.latent": "0.1",
    "training.loss_reduction": "'sum_time_mean_batch'",
}
INDIFFERENT = {
    "training.valid_window": "77",  # how evaluation is cut, not what it finds
    "corpus.name": "'grammar'",  # a default, said
    "training.accumulate": "1",
    "regularizer.embedding_dropout.rate": "0.0",  # off is off
    "gate": "'none'",
    "loss": "'cross_entropy'",
}


@pytest.mark.parametrize("name", DETERMINING)
def test_what_determines_an_outcome_makes_another_trial(name, tmp_path, data):
    before = {trial.id for trial in planned(GOOD, tmp_path, data).trials}
    after = {
        trial.id for trial in planned(with_value(name, DETERMINING[name]), tmp_path, data).trials
    }
    if name == "training.window":  # arm b sets its own
        assert len(before & after) == 4
    else:
        assert not before & after


@pytest.mark.parametrize("name", INDIFFERENT)
def test_what_determines_nothing_does_not(name, tmp_path, data):
    before = [trial.id for trial in planned(GOOD, tmp_path, data).trials]
    after = [t.id for t in planned(with_value(name, INDIFFERENT[name]), tmp_path, data).trials]
    assert before == after


@pytest.mark.parametrize(
    ("old", "new"),
    [("Which?", "Which one?"), ('Arm("b"', 'Arm("bb"'), ("trials=9", "trials=99")],
)
def test_labels_and_budgets_are_no_part_of_an_id(old, new, tmp_path, data):
    before = [trial.id for trial in planned(GOOD, tmp_path, data).trials]
    assert [trial.id for trial in planned(changed(old, new), tmp_path, data).trials] == before


def test_the_kinds_of_error_are_told_apart(tmp_path, data):
    kinds = {
        with_value("head", "'nonsuch'"): ConfigError,
        changed('base_arm="a"', 'base_arm="x"'): StudyError,
        with_value("head.experts", "(2, 0, 0, 1)"): CombinationError,
        GOOD + "\n1 / 0\n": TechniqueError,
    }
    for text, kind in kinds.items():
        with pytest.raises(kind):
            planned(text, tmp_path, data)
