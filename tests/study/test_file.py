"""Study files mutated by kind, several hundred: each wrong one is refused with the right words.

And the other way round: a change of anything that determines an outcome makes another trial, and
a change of anything else does not.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ablate.config.fields import describe
from ablate.config.registry import get
from ablate.errors import AblateError, CombinationError, ConfigError, StudyError, TechniqueError
from ablate.lm.kinds import LANGUAGE
from ablate.study.file import load
from ablate.study.plan import make_plan

GOOD = """
from ablate import Arm, Scale, Search, Stage, Study, table

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
            hours=9,
        ),
    },
)
"""


def planned(text: str, folder: Path, data: str):
    file = folder / "asked.py"
    file.write_bytes(text.encode(errors="surrogateescape"))
    return make_plan(load(file), data=data)


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def with_value(name: str, value: str) -> str:
    """The good study with one more base value (or another one)."""
    lines = [line for line in GOOD.splitlines() if not line.startswith(f'    "{name}":')]
    return "\n".join(lines).replace("BASE = {", f'BASE = {{\n    "{name}": {value},')


def field_mutations():
    """Yield wrong values for each field: misspelt, of a wrong type, out of range, not a choice."""
    # Of the others, tests/golden has the limits.
    configs = {"training": LANGUAGE.sections["training"], "head": get("head", "doc").config}
    for prefix, config in configs.items():
        for info in describe(config):
            name, limits = f"{prefix}.{info.name}", info.limits
            yield with_value(f"{name}x", "1"), rf"unknown field '{info.name}x'.*'{info.name}'"
            field = re.escape(f"{info.name} = ")
            yield with_value(name, "{1: 2}"), rf"{field}.*is not allowed\. Expected: "
            yield with_value(name, "float('nan')"), rf"{field}nan is not allowed\. Expected: "
            if limits.choices is not None:
                yield with_value(name, "'nonsense'"), rf"{field}'nonsense'.*Expected: one of "
                continue
            yield with_value(name, "object()"), rf"{field}.*is not allowed"
            if limits.low is not None:
                wrong = limits.low - 1
                yield with_value(name, f"{wrong:g}"), rf"{field}.*is not allowed"
            if limits.high is not None:
                wrong = limits.high + 1
                yield with_value(name, f"{wrong:g}"), rf"{field}.*is not allowed"
            if "number" in info.type:
                yield with_value(name, "'three'"), rf"{field}'three' is not allowed.*number"
                yield with_value(name, "True"), rf"{field}True is not allowed"


def word_mutations():
    """Yield a misspelt keyword and a wrong type for each class of a study file."""
    wrong = {
        "Study": ("question", "base", "base_arm", "design", "scales"),
        "Scale": ("corpus", "seeds", "stages", "hours"),
    }
    for word, names in wrong.items():
        for name in names:
            yield GOOD.replace(f"{name}=", f"{name}z=", 1), rf"unknown field of {word} '{name}z'"
            pattern = rf"(\b{name}=)([^\n(]+\(|[^\n]+)"
            text = re.sub(pattern, r"\1object() or \2", GOOD, count=1)
            yield text, rf":\d+: .*{name}.*is not allowed"
    yield changed("hours=9", "hours='9'"), r"hours = '9' is not allowed"
    yield changed("seeds=2", "seeds=0"), r"seeds = 0 is not allowed"
    yield changed("seeds=2", "seeds='two'"), r"seeds = 'two' is not allowed"
    yield changed("seeds=2", "seeds=2, first_seed=0"), r"first_seed = 0 is not allowed.*at least 1"
    yield changed("seeds=2", "seeds=2, first_seed=1.5"), r"first_seed = 1.5 is not allowed"
    yield changed("seeds=2", "seeds=2, threads=0"), r"threads = 0 is not allowed"


def reference_mutations():
    """Yield wrong names of arms, scales, techniques, slots, recipes and corpora."""
    yield changed('base_arm="a"', 'base_arm="aa"'), r"unknown base_arm 'aa'.*Expected one of: a, b"
    yield changed('Arm("b"', 'Arm("a"'), r"two arms are called 'a'"
    yield changed("seeds=2", 'seeds=2, arms=["a", "c"]'), r"unknown arm 'c'.*Expected one of: a, b"
    yield changed("base=BASE", 'base="takase2018doc_tabel2"'), r"'takase2018doc_table2'"
    yield changed('corpus="grammar"', 'corpus="gramar"'), r"unknown corpus 'gramar'.*'grammar'"
    yield changed('"a")', '"a", published=("M", "v"))'), r"unknown published model 'M'"
    for slot in ("backbone", "head", "optimizer"):
        yield with_value(slot, "'nonsuch'"), rf"unknown {slot} 'nonsuch'.*Expected one of: "
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


def search_mutations():
    """Yield searches that cannot be."""
    wrong = {
        "trials=0": r"trials = 0 is not allowed\. Expected: whole number, at least 1",
        "trials='3'": r"trials = '3' is not allowed",
        "trials=3, tokens=9": r"Search has no tokens now\. Instead: trials=, or .*hours=",
        "trials=3, reduction=4": r"Search has no reduction now\. Instead: leave it out",
        "trials=3, also=['x']": r"Search has no also now\. Instead: leave it out",
        "trials=3, batch=0": r"batch = 0 is not allowed",
        "trials=3, batch=2.5": r"batch = 2\.5 is not allowed",
        "trials=3, repeats=0": r"repeats = 0 is not allowed",
        "trials=3, synchronous='yes'": r"synchronous = 'yes' is not allowed\. Expected: true or",
        "trials=3, early_stopping='ashaa'": r"'ashaa' is not allowed.* Did you mean 'asha'\?",
        "trials=3, changes={1: 2}": r"changes = \{1: 2\} is not allowed\. Expected: dict of text",
        "trials=3, changes=['x']": r"changes = \['x'\] is not allowed",
        "trials=3, sampler=None": r"sampler = None is not allowed",
        "trials=3, space='x'": r"keyword argument repeated: space",
        "trails=3": r"unknown field of Search 'trails'.*Did you mean 'trials'",
        "": r"Search needs trials",
        "trials=3, synchronous=True, early_stopping='asha'": r"synchronous and early_stop",
    }
    for words, message in wrong.items():
        search = f"search=Search(space='rates', {words})"
        yield changed("seeds=2", f"seeds=2, {search}"), rf"asked\.py:\d+: .*{message}"
    for words, message in {
        "sampler='tpee'": r"search: unknown sampler 'tpee'. Did you mean 'tpe'\?.*: random, tpe",
        "options={'multivariat': True}": r"sampler tpe: unknown field 'multiv.*'multivariate'\?",
        "sampler='random', options={'startup': 1}": r"sampler random: unknown field 'startup'",
        "options={'n_startup_trials': -1}": r"tpe\.n_startup_trials = -1 is not .* at least 0",
    }.items():
        search = f"search=Search(space='takase2018doc_table2', trials=3, {words})"
        yield (
            changed("seeds=2", f"seeds=2, {search}"),
            rf"asked\.py: (search: )?(sampler )?{message}",
        )
    search = "search=Search(space='nonsuch', trials=3)"
    yield (
        changed("seeds=2", f"seeds=2, {search}"),
        r"unknown search space 'nonsuch'",
    )
    later = "search=Search(space='takase2018doc_table2', trials=3, changes={'training.epohcs': 1})"
    yield changed("seeds=2", f"seeds=2, column='ptb', {later}"), r"'epohcs'.*Did you mean 'epochs'"


def scale_mutations():
    """Yield scales and stages that cannot be."""
    wrong = {
        "gpus=-1": r"gpus = -1 is not allowed\. Expected: number, at least 0",
        "gpus='one'": r"gpus = 'one' is not allowed",
        "threads=1.5": r"threads = 1\.5 is not allowed",
        "share_gpus=True": r"Scale has no share_gpus now\. Instead: gpus=1/3 for three trials",
        "fuse='seeds'": r"Scale has no fuse now\. Instead: leave it out: seeds",
        "processes=2": r"Scale has no processes now\. .* a task of your own",
        "compile='graphs'": r"compile = 'graphs' is not allowed\. .* one of 'off', 'inductor'",
        "budget=3": r"Scale has no budget now\. Instead: hours=2; a plan",
        "seedz=3": r"unknown field of Scale 'seedz'.*'seeds'",
        "ensemble=1": r"ensemble = 1 is not allowed\. Expected: true or false",
        "published='yes'": r"published = 'yes' is not allowed",
        "changes=3": r"changes = 3 is not allowed",
        "arms='a'": r"arms = 'a' is not allowed\. Expected: list of text",
        "arms=['b', 1]": r"arms\[1\] = 1 is not allowed\. Expected: text",
        "column=3": r"column = 3 is not allowed",
        "adapt=3": r"adapt = 3 is not allowed\. Expected: function or none",
        "not_comparable=3": r"not_comparable = 3 is not allowed\. Expected: text or function",
        "not_comparable='Adam'": r"scale 'small': not_comparable says why .*set published=True",
        "search='rates'": r"search = 'rates' is not allowed\. Expected: Search or none",
    }
    for words, message in wrong.items():
        yield changed("seeds=2", f"seeds=2, {words}"), rf"asked\.py:\d+: .*{message}"
    tables = {
        "base=BASE": "There are none",
        "base='takase2018doc_table2'": r"Did you mean 'ptb'\? Expected one of: ptb, wikitext-2",
    }
    for base, allowed in tables.items():
        text = changed("seeds=2", "seeds=2, column='ptbb'").replace("base=BASE", base)
        yield text, rf"asked\.py: scale 'small': unknown column 'ptbb'\. {allowed}"
    column = changed('    "head"', "    **recipe('laptop_lstm', 'zzz'),\n    \"head\"")
    yield column.replace("import Arm", "import recipe, Arm"), r":\d+: .*there is no column 'zzz'"
    yield changed("seeds=2", "2"), r"asked\.py:\d+: "
    yield changed("seeds=2", "seeds=2, adapt=lambda v: None"), r"adapt = <lambda> returned None"
    yield changed("seeds=2", "seeds=2, adapt=lambda v: {'heda': 1}"), r"'heda'.*Did you mean 'head'"
    why = "seeds=2, published=True, not_comparable=lambda v: 3"
    yield changed("seeds=2", why), r"not_comparable = <lambda> returned 3\. Expected: text"
    yield changed("seeds=2", "seeds=2, changes={'head': 'dco'}"), r"unknown head 'dco'"
    yield changed("hours=9", "hours=-1"), r"asked\.py:\d+: Scale: hours = -1 is not allowed"
    gone = changed("import Arm", "import Budget, Arm")
    yield gone, r"asked\.py:\d+: ablate has no Budget now\. Instead: Scale\(hours=2\)"
    control = changed('"at_once"}', '"at_once"}, control=True')
    yield control, r"asked\.py:\d+: Stage has no control now\. Instead: one more arm"
    for name in ("train", "search", "ensemble"):
        yield changed('"finetune"', f'"{name}"'), rf"stage = '{name}' is not allowed"
    for name in ("", " "):
        yield changed('"finetune"', f'"{name}"'), rf"asked\.py:\d+: Stage: name = '{name}' is not"
    again = 'Stage("finetune", {}), Stage("finetune", '
    yield changed('Stage("finetune", ', again), r"scale 'small': stage = 'finetune' is not allowed"
    yield changed('Stage("finetune", {', "Stage({"), r"Stage: name = "
    yield changed('"at_once"', '"at_onec"'), r"arm 'a'.*'at_onec'.*Did you mean 'at_once'"
    yield changed('"small"', '"sm/all"'), r"scale = 'sm/all' is not allowed"
    yield changed("scales={", "scales={} and {"), r"a study needs at least one scale"


def design_mutations():
    """Yield arms and designs that cannot be."""
    arms = 'table(Arm("a"), Arm("b", {"training.window": 33}))'
    wrong = {
        "table()": r"unknown base_arm 'a'",
        'table("a", "b")': r"Design: arms\[0\] = 'a' is not allowed\. Expected: Arm",
        'table([Arm("a")])': r"Design: arms\[0\] = \[Arm.* is not allowed\. Expected: Arm",
        '[Arm("a")]': r"Study: design = \[Arm.* is not allowed\. Expected: Design",
        "table(Arm())": r"Arm needs name",
        'table(Arm("a", 3))': r"Arm: changes = 3 is not allowed",
        'table(Arm("a", {3: 4}))': r"Arm: changes = \{3: 4\} is not allowed",
        'table(Arm("a", recipe=3))': r"Arm: recipe = 3 is not allowed",
        'table(Arm("a", recipe="nonsuch"))': r"unknown search space 'nonsuch'",
        'table(Arm("a", stages={"finetoon": {}}))': r"'finetoon'.*Did you mean 'finetune'",
        'table(Arm("a", stages={"finetune": 3}))': r"stages\['finetune'\] = 3 is not allowed",
        'table(Arm("a", published=("M",)))': r"published = \('M',\) is not allowed",
        'table(Arm("a", published="MoS"))': r"published = 'MoS' is not allowed",
        'table(Arm("a", chagnes={}))': r"unknown field of Arm 'chagnes'.*'changes'",
        'table(Arm("a", {}, None, {}, (), None, {}, None, 7))': r"Arm takes from 2 to 9",
        'table(Arm("a", name="b"))': r"asked\.py:\d+: Arm got multiple values",
    }
    for design, message in wrong.items():
        yield changed(arms, design), message
    words = {
        "factorial({'a': {'x': 3}})": r"factorial: factors\['a'\]\['x'\] = 3 is not allowed",
        "factorial([])": r"factorial: factors = \[\] is not allowed",
        "factorial({'p': {'x': {'k': 1}}, 'q': {'y': {'k': 2}}})": r"'p' and 'q' both change k",
        "one_at_a_time({'a': 3})": r"one_at_a_time: factors\['a'\] = 3 is not allowed",
        "one_at_a_time({}, bse='a')": r"unknown field of one_at_a_time 'bse'.*'base'",
        "leave_one_out({'a': 3})": r"leave_one_out: removed\['a'\] = 3 is not allowed",
        "leave_one_out()": r"leave_one_out needs removed",
    }
    for design, message in words.items():
        word = design.split("(")[0]
        text = changed(arms, design).replace("import Arm", f"import Arm, {word}")
        yield text, rf"asked\.py:\d+: .*{message}"


def study_mutations():
    """Yield fields of a study that cannot be."""
    wrong = {
        "name='a/b'": r"name = 'a/b' is not allowed",
        "name='a@b'": r"name = 'a@b' is not allowed",
        "name=3": r"name = 3 is not allowed",
        "tables='Table 3'": r"tables = 'Table 3' is not allowed\. Expected: list of text",
        "techniques='own.py'": r"techniques = 'own\.py' is not allowed",
        "techniques=('nonsuch.py',)": r"asked\.py: unknown file of techniques 'nonsuch\.py'",
        "runner='nonsuch:Task'": r"runner = 'nonsuch:Task' is not allowed\..* with @task",
        "runner=print": r"runner = <built-in function print> is not allowed",
        "papre='x'": r"unknown field of Study 'papre'.*'paper'",
    }
    for words, message in wrong.items():
        yield changed('question="Which?",', f'question="Which?", {words},'), message
    published = changed('Arm("a")', 'Arm("a", published=("AWD-LSTM-DOC", "nonsuch"))')
    for paper, table, message in (
        ("takase2018dok", "Table 3", r"unknown paper 'takase2018dok'.*'takase2018doc'"),
        ("takase2018doc", "Table 33", r"unknown table 'Table 33'.*Did you mean 'Table 3'"),
        ("takase2018doc", "Table 3", r"unknown published variant of AWD-LSTM-DOC 'nonsuch'"),
    ):
        cited = f'question="Which?", paper="{paper}", tables=["{table}"],'
        yield published.replace('question="Which?",', cited), message


def text_mutations():
    """Yield files that are not Python, have no study, or raise an exception."""
    yield GOOD.replace("study = Study(", "study = Study((", 1), r"asked\.py:\d+: "
    yield GOOD.replace("study = ", "stuyd = ", 1), r"no `study = .*'stuyd'"
    yield "x = 1\n", r"no `study = "
    yield GOOD + "\n1 / 0\n", r"ZeroDivisionError"
    yield GOOD + "\nimport nonsuch_module\n", r"nonsuch_module"
    exits = r"asked\.py:\d+: sys\.exit\(\) ends Python while this file is read"
    yield GOOD + "\nimport sys\nsys.exit()\n", exits
    yield GOOD + "\nraise SystemExit(0)\n", exits
    adapted = changed("seeds=2", "seeds=2, adapt=lambda values: exit()")
    yield adapted, r"adapt = <lambda> raised an exception.*SystemExit"
    yield changed("import Arm, ", "import Arms, Arm, "), r":2: unknown word of ablate 'Arms'.*'Arm'"
    gone = r":2: ablate has no grid now\. Instead: factorial\(\.\.\.\), or Search\(space=\.\.\.\)"
    yield changed("import Arm, ", "import grid, Arm, "), gone
    yield GOOD + "\nArm(*nonsuch)\n", r"NameError: name 'nonsuch' is not defined"
    yield GOOD + "\nlen(3)\n", r"TypeError: object of type 'int' has no len\(\)"
    yield changed("seeds=2", "seeds=\0 2"), r"asked\.py"
    yield changed("Which?", "Wh\udcff?"), r"asked\.py:\d+: .*utf-8"


def mutations(make):
    return [pytest.param(*each, id=f"{make.__name__}-{i}") for i, each in enumerate(make())]


WRONG = [
    *mutations(field_mutations),
    *mutations(word_mutations),
    *mutations(reference_mutations),
    *mutations(combination_mutations),
    *mutations(search_mutations),
    *mutations(scale_mutations),
    *mutations(design_mutations),
    *mutations(study_mutations),
    *mutations(text_mutations),
]


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
    [("Which?", "Which one?"), ('Arm("b"', 'Arm("bb"'), ("hours=9", "hours=99")],
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
