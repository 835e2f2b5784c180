"""The papers' recipes and spaces: each equals its page, and everything in them can be built."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from typing import Any

import pytest

from ablate.commands.spaces import show_space
from ablate.config.config import Config
from ablate.config.merge import merge
from ablate.config.resolve import resolve
from ablate.lm.model.assemble import assemble
from ablate.space import space
from ablate.space.row import Choices, Range, Row
from ablate.space.space import Space, load
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale
from tests.support import places

ROOT = places.ROOT
TYPED = places.TABLES / "hyperparameters.csv"
PATHS = sorted((ROOT / "search_spaces").glob("*.toml"))
NAMES = [path.stem for path in PATHS if load(path).paper not in ("", "ours")]
# What goes over another recipe, since it has no model of its own: which, and which column of it
# (none: the same).
OVER = {
    "inan2017tying_later": ("inan2017tying_section6", None),
    "takase2017iog_table1": ("merity2018awd", "ptb"),
    "takase2017iog_text4": ("merity2018awd", "ptb"),
    "grave2017_cache": ("grave2017", "ptb"),
    "oliva2021dual_table4_evaluation": ("oliva2021dual_text4_2", None),
    "oliva2021dual_text4_2_evaluation": ("oliva2021dual_text4_2", None),
}
# What has to be said first where the rest hangs on it.
MEANT = {
    "inan2017tying_section6_2": {"beta": 1},
    "oliva2021dual_table1": {"Model": "mdLSTM", "Dual": "dual"},
    "oliva2021dual_table3_4": {"Backbone": "mogrifier", "Bridge": "dual", "Mogrifier deep": 4}
    | {"Embedding units": 850, "Dual units": 850, "Dynamic evaluation": True},
    "pachitariu2013irlm_table1c_1d": {"Model": "IRLM (LCUs)"},
    "pachitariu2013irlm_table2": {"Regularization": "DO&CN"},
}
RECIPES = ("gal2016", "merity2018awd", "takase2018doc_table2", "yang2018mos", "zaremba2014")


def columns(loaded: Space) -> tuple[str | None, ...]:
    return loaded.corpora or (None,)


def is_off(field: str, values: dict[str, Any]) -> bool:
    """Return whether a regularizer's rates are all 0 or open; it is then not in the config."""
    room = field.rpartition(".")[0]
    return room.startswith("regularizer.") and not any(
        value for key, value in values.items() if key.startswith(room) and type(value) is not bool
    )


def base_of(name: str, column: str | None) -> dict[str, Any]:
    recipe, other = OVER.get(name, (None, None))
    task = {"task": load(name).task} if load(name).task else {}
    return task if recipe is None else load(recipe).values(other or column)


def built(values: dict[str, Any]) -> Config:
    """Resolve and assemble without memory, which refuses impossible combinations."""
    config = resolve(values)
    assemble(config, 10_000, "meta", source_vocabulary=10_000)
    return config


def drawn(chance: random.Random):
    def suggest(row: Row) -> Any:
        if isinstance(row.domain, Choices):
            return chance.choice(row.domain.values)
        assert isinstance(row.domain, Range)
        low, high = row.domain.ends
        return chance.randint(low, high) if row.domain.integer else chance.uniform(low, high)

    return suggest


def samples(loaded: Space, column: str | None, num: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(loaded.name)
    for _ in range(num):
        yield loaded.sample(drawn(chance), column)


def test_every_file_is_in_the_list():
    listed = space.index()
    assert len(NAMES) >= 18
    for name in NAMES:
        assert isinstance(listed[name], Space)
        assert name.startswith(listed[name].paper)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_names_what_the_registry_has(name):
    load(name).check()


@pytest.mark.parametrize("name", NAMES)
def test_a_file_prints_all_its_rows_in_order(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # in which no row's name is broken
    loaded = load(name)
    text = show_space(loaded)
    title = f"{name}: {loaded.paper}, {', '.join(loaded.tables)}"
    assert " ".join(text.split()).startswith(title)
    page, _, rest = text.partition("\nNot in the printed table\n")
    for part, printed in ((page, True), (rest.partition("Field of ablate")[0], False)):
        rows = [row.name + row.marker for row in loaded.rows if row.printed == printed]
        first = [line for line in part.splitlines() if line and not line.startswith(" ")]
        at = [
            next(i for i, line in enumerate(first) if f"{line}  ".startswith(f"{r}  "))
            for r in rows
        ]
        assert at == sorted(at), name
    for column in loaded.corpora:
        assert column in text


@pytest.mark.parametrize("name", NAMES)
def test_what_is_settled_can_be_built_for_each_column(name):
    loaded = load(name)
    for column in columns(loaded):
        settled = loaded.values(column, MEANT.get(name))
        values = merge(base_of(name, column), settled)
        flat = built(values).flat
        for field, value in settled.items():
            if "[" not in field and not is_off(field, settled):
                assert flat[field] == value


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_is_drawn_can_be_built_for_each_column(name):
    """Yield 30 points of an open space, or the one point of a recipe."""
    loaded = load(name)
    for column in columns(loaded):
        count = 0
        for values in samples(loaded, column, 30 if loaded.open else 1):
            built(merge(base_of(name, column), values))
            count += 1
        assert count >= (15 if loaded.open else 1)


@pytest.mark.parametrize("name", [*RECIPES, "zilly2017rhn"])
def test_a_recipe_leaves_nothing_open(name):
    loaded = load(name)
    assert not loaded.open
    for column in columns(loaded):
        assert set(loaded.values(column)) == loaded.fields


@pytest.mark.parametrize("name", NAMES)
def test_what_no_page_gives_says_whose_it_is(name):
    """An open row is printed by the paper, quotes a table, or names itself as ours."""
    for row in load(name).rows:
        if not any(isinstance(domain, Range | Choices) for domain in row.domains):
            continue
        text = f"{row.source} {row.note}"
        explained = "ours" in text or "Table" in text
        assert row.printed or explained, row.name
        if name in ("inan2017tying_section6", "pachitariu2013irlm_table2") and row.printed:
            assert explained or isinstance(row.domains[0], Choices), row.name


# --- Each file compared with the page as it was typed -----------------------------------------

# File -> the paper, its part, and what the file prints that was not typed (or under this name).
PAGES = {
    "takase2017iog_table1": ("000", "Table 1", {}),
    "oliva2021dual_text4_2": ("002", "text 4.2 (best Dual mdLSTM, PTB)", {}),
    "oliva2021dual_text4_2_evaluation": (
        "002",
        "text 4.2 (post-training tuning on validation)",
        {"Learning rate eval": None},
    ),
    "inan2017tying_section6": ("004", "text 6.1-6.2", {}),
    "inan2017tying_section6_2": ("004", "text 6.1-6.2", {}),
    "pachitariu2013irlm_table2": (
        "001",
        "text",
        {"Regularization": None, "L1": None},
    ),
    "pachitariu2013irlm_table1a": ("001", "text", {}),
    "pachitariu2013irlm_table1b": ("001", "text", {}),
    "pachitariu2013irlm_table1c_1d": (
        "001",
        "text",
        {"Model": None, "LCU initial value, RNN": "RNN block init"},
    ),
}
# What the typed text says in words, and how a config says it.
IN_WORDS = {
    "Adam": "adam",
    "Nadam": "nadam",
    "SGD": "sgd",
    "1/sqrt(Epoch)": "inverse_sqrt_epoch",
    "50%": 0.5,
    "1/1000": 0.001,
    "max(0,x)": "relu",
    "max(0, x - a*tanh(x/a)) (smoothed rectifier; a unspecified)": "smoothed_relu",
    "0.5 on x_t at the decoder only": 0.5,
    "15 (crossvalidated with 5 runs)": 15,
    "towards 0 on epochs where the validation cost decreased (sic)": "validation",
    "very high: each update an effective average over ~1e6 tokens": 1_000_000,
    "none (only for raw Wikipedia)": "none",
    "words with >= 5 training occurrences, rest <unk>": 5,
    "NCE": "nce",
    "50 (RNN; 10 in v1)": 50,
    "0.9 (all 512 units)": 0.9,
    "128 initialised at 0": [0.9, 0],
    "0.9*I on the 384 block, 0 on the 128 block": [0.9, 0],
    "20000 contiguous": 20000,
}
# Settings given as a range that the file turns into something else, or leaves open.
OTHERWISE = {
    "R range": [-1],
    "LCU constraint": [[0.7, -1]],
    "LCU initial value, RNN": [[0.9]],
    "Nadam beta_1 at dynamic evaluation": [0.9, 0],
}
OPEN = ("decay rate", "dropout", "tau", "alpha")


def typed(paper: str, part: str) -> dict[str, dict[str, str]]:
    with TYPED.open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if (r["paper_id"], r["table"]) == (paper, part)]
    return {row["name"]: row for row in rows}


@pytest.mark.parametrize("name", PAGES)
def test_a_file_is_its_page(name):
    """The names of the page, in its order, with its values."""
    paper, part, renamed = PAGES[name]
    rows, loaded = typed(paper, part), load(name)
    ours = [row for row in loaded.rows if row.printed]
    names = [renamed.get(row.name, row.name) for row in ours]
    known = [each for each in names if each is not None]
    assert set(known) <= set(rows), name
    for row in ours:
        typed_name = renamed.get(row.name, row.name)
        if typed_name is None or (name == "inan2017tying_section6" and row.name in OPEN):
            continue
        assert values_of(row) == page_values(row, rows[typed_name]["values"]), row.name


def values_of(row: Row) -> list[Any]:
    """Return a row's values over its columns, each value once."""
    values: list[Any] = []
    for domain in row.domains:
        for end in domain.ends:
            if end not in values:
                values.append(end)
    return values


def page_values(row: Row, text: str) -> list[Any]:
    if row.name in OTHERWISE:
        return OTHERWISE[row.name]
    if row.name == "tau":  # 10 in one panel, swept in the other
        return [1, 30]
    if row.name == "hidden units (char RNN)":
        return [2048, 512]
    if text in IN_WORDS:
        return [IN_WORDS[text]]
    for mark in ("|", ".."):
        if mark in text:
            return list(dict.fromkeys(float(value) for value in text.split(mark)))
    return [float(text)]


def test_the_tables_of_four_papers_are_whole():
    """Every typed setting of our models is in a file."""
    missing = {}
    for name, (paper, part, renamed) in PAGES.items():
        names = {renamed.get(row.name, row.name) for row in load(name).rows}
        missing.setdefault((paper, part), set(typed(paper, part)))
        missing[paper, part] -= names
    assert missing.pop(("001", "text")) == {"vocabulary", "training words"}  # in a note
    assert missing.pop(("004", "text 6.1-6.2")) == {"runs averaged"}  # a study's
    assert not any(missing.values())


def test_the_cache_is_as_large_as_the_text_says():
    sizes = {
        "cache size PTB": "awd-ptb",
        "cache size WT2 variational": "variational-wikitext-2",
        "cache size WT2 AWD": "awd-wikitext-2",
    }
    rows, loaded = typed("000", "text 4.2-4.4"), load("takase2017iog_text4")
    for name, column in sizes.items():
        values = loaded.values(column)
        assert values["evaluator.cache.window"] == int(rows[name]["values"])


def test_the_base_models_of_the_gate_have_its_texts_sizes():
    rows = typed("000", "text 4.2-4.4")
    for name in ("zaremba2014", "gal2016"):
        for size in ("medium", "large"):
            units = load(name).values(size)["backbone.units"]
            assert units == int(rows[f"hidden dims {size}"]["values"])
    assert load("zilly2017rhn").values("depth-8")["backbone.depth"] == 8
    assert rows["RHN depth"]["values"] == "8"
    gate = load("takase2017iog_table1").values()["gate.units"]
    assert gate == int(rows["LSTM gate hidden size"]["values"])


def test_recipes_that_quote_one_another_agree():
    """Gal's large model is Zaremba's except for its masks, its weight decay and its epochs
    before the rate falls; MoS and DOC have AWD's defaults."""
    zaremba, gal = (load(name).values("large") for name in ("zaremba2014", "gal2016"))
    differ = {key for key in zaremba.keys() & gal.keys() if zaremba[key] != gal[key]}
    assert differ == {"optimizer.flat_epochs"}
    assert all(key.startswith("regularizer.") for key in zaremba.keys() ^ gal.keys())
    awd, mos, doc = (
        load(name).values("ptb")
        for name in ("merity2018awd", "yang2018mos", "takase2018doc_table2")
    )
    for other in (mos, doc):
        for key in ("optimizer.weight_decay", "training.clip", "training.window"):
            assert awd[key] == other[key]
        for key in awd:
            if key.startswith(("regularizer.activation", "regularizer.temporal", "regularizer.we")):
                assert awd[key] == other[key]


# Units, layers, dropout, init, rate, decay, flat epochs, epochs, clip, window: the table of facts.
SCRIPTS = {
    ("zaremba2014", "small"): (200, 2, 0, 0.1, 1, 2, 4, 13, 5, 20),
    ("zaremba2014", "medium"): (650, 2, 0.5, 0.05, 1, 1.2, 6, 39, 5, 35),
    ("zaremba2014", "large"): (1500, 2, 0.65, 0.04, 1, 1.15, 14, 55, 10, 35),
    ("gal2016", "large"): (1500, 2, None, 0.04, 1, 1.15, 10, 55, 10, 35),
    ("zilly2017rhn", "depth-8"): (890, None, None, 0.04, 0.2, 1.02, 20, 500, 10, 35),
    ("zilly2017rhn", "depth-9-tied"): (860, None, None, 0.04, 0.2, 1.02, 20, 500, 10, 35),
    ("zilly2017rhn", "depth-10-tied"): (830, None, None, 0.04, 0.2, 1.02, 20, 500, 10, 35),
}
SETTINGS = (
    "backbone.units", "backbone.num_layers", "regularizer.dropout.output",
    "head.initial_range", "optimizer.learning_rate", "optimizer.decay", "optimizer.flat_epochs",
    "training.epochs", "training.clip", "training.window",
)  # fmt: skip
RATES = {
    # words, input, recurrent, between layers, output
    ("gal2016", "large"): (0.3, 0.5, 0.3, 0.5, 0.5),
    ("zilly2017rhn", "depth-8"): (0.25, 0.75, 0.25, None, 0.75),
    ("merity2018awd", "ptb"): (0.1, 0.4, None, 0.25, 0.4),
    ("merity2018awd", "wikitext-2"): (0.1, 0.65, None, 0.2, 0.4),
}
MASKS = ("input", "recurrent", "hidden", "output")


@pytest.mark.parametrize("recipe", SCRIPTS)
def test_a_recipe_has_its_scripts_settings(recipe):
    name, column = recipe
    values = load(name).values(column)
    assert tuple(values.get(key) for key in SETTINGS) == SCRIPTS[recipe]
    assert values["head.bias_range"] == values["head.initial_range"]  # the scripts draw all alike
    assert values["training.batch_size"] == 20
    assert values["training.loss_reduction"] == "sum_time_mean_batch"


@pytest.mark.parametrize(("depth", "units"), [(8, 890), (9, 860), (10, 830)])
def test_each_depth_of_the_rhn_has_its_authors_size(depth, units):
    """The README's table of depths; tied and untied models have one size."""
    loaded = load("zilly2017rhn")
    for column in {f"depth-{depth}", f"depth-{depth}-tied"} & set(loaded.corpora):
        values = loaded.values(column)
        assert (values["backbone.depth"], values["backbone.units"]) == (depth, units)
        assert values["head.tied"] is column.endswith("tied")
    assert f"depth-{depth}-tied" in loaded.corpora


@pytest.mark.parametrize("recipe", RATES)
def test_a_recipe_has_its_scripts_masks(recipe):
    name, column = recipe
    values = load(name).values(column)
    masks = tuple(values.get(f"regularizer.variational_dropout.{site}") for site in MASKS)
    assert (values["regularizer.embedding_dropout.rate"], *masks) == RATES[recipe]


def test_awd_is_its_commands():
    expected = {"ptb": (20, 500), "wikitext-2": (80, 750)}
    for column, sizes in expected.items():
        values = load("merity2018awd").values(column)
        assert (values["training.batch_size"], values["training.epochs"]) == sizes
        assert values["optimizer.learning_rate"] == 30
        assert values["optimizer.nonmono"] == 5
        assert values["regularizer.weight_drop.rate"] == 0.5
        assert values["optimizer.weight_decay"] == 1.2e-6
        assert (values["training.window"], values["training.clip"]) == (70, 0.25)


def test_tied_masks_go_with_any_rate():
    """004's single mask for a hidden state needs three equal rates."""
    loaded = load("inan2017tying_section6")
    values = loaded.values("large", {"dropout": 0.6, "RE": True, "AL": "augmented"})
    config = built({**values, "loss.temperature": 20.0})
    dropout = next(
        c.config for c in config.listed["regularizer"] if c.name == "variational_dropout"
    )
    assert dropout.tied
    assert dropout.recurrent == dropout.hidden == dropout.output == dropout.input == 0.6


def test_an_arm_takes_one_column_for_a_recipe(tmp_path):
    study = Study(
        question="Does a larger LSTM help?",
        base="zaremba2014:small",
        base_arm="small",
        design=table(
            Arm("small"),
            Arm("large", recipe="zaremba2014:large"),
            Arm("AWD", recipe="merity2018awd"),  # by the scale's corpus
        ),
        scales={"s": Scale(corpus="ptb", seeds=1)},
        name="sizes",
    )
    trials = {trial.arm: trial for trial in make_plan(study, data=str(tmp_path)).trials}
    units = {arm: trial.values["backbone.units"] for arm, trial in trials.items()}
    assert units == {"small": 200, "large": 1500, "AWD": 1150}
