"""The shipped search spaces: each equals its paper's table, and loads by its name."""

from __future__ import annotations

import csv
import random
import re
import subprocess
import sys
from typing import Any

import pytest

from ablate.commands.spaces import list_spaces
from ablate.config.resolve import resolve
from ablate.errors import SpaceError
from ablate.space import space
from ablate.space.links import possible_domains
from ablate.space.row import Fixed, Range, Row
from ablate.space.space import Space, load
from tests.support import places
from tests.support.spaces import DOC, DUAL, MOS, SHIPPED, SMALL, draw

ROOT = places.ROOT
NAMES = ", ".join(sorted(p.stem for p in (ROOT / "search_spaces").glob("*.toml")))
TABLE = places.TABLES / "hyperparameters.csv"
CORPORA = {"PTB": "ptb", "WikiText-2": "wikitext-2"}


def printed(paper: str, *tables: str) -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row for row in rows if row["paper_id"] == paper and row["table"] in tables]


def test_doc_is_its_table_in_order():
    rows = printed("003", "Table 2")
    names = list(dict.fromkeys(row["name"] for row in rows))
    loaded = load(DOC)
    assert [row.name for row in loaded.rows if row.printed] == names
    for row in rows:
        domain = loaded[row["name"]].at(CORPORA[row["applies_to"]]).domain
        assert isinstance(domain, Fixed)
        assert domain.value == float(row["values"])


def test_dual_is_its_tables_in_order():
    rows = printed("002", "Table 3", "Table 4")
    loaded = load(DUAL)
    ours = [row for row in loaded.rows if row.printed]
    assert [f"{row.name}{row.marker}" for row in ours] == [row["name"] for row in rows]
    assert [row.description for row in ours] == [row["description"] for row in rows]
    for row, typed in zip(ours, rows, strict=True):
        if isinstance(row.domain, Range):
            low, high = map(float, typed["values"].split(".."))
            assert (row.domain.low, row.domain.high) == (low, high)
        else:
            domains = possible_domains(row.name, ours)
            values = [end for domain in domains for end in domain.ends]
            assert values == [float(value) for value in typed["values"].split("|")]
        starred = "*" if typed["applies_to"] == "dual only" else ""
        assert row.marker == starred


def test_the_best_published_dual_is_in_its_space():
    best = {row["name"]: row["values"] for row in printed("002", *_best_of())}
    loaded = load(DUAL)
    named = {name: float(text) for name, text in best.items() if name in _names(loaded)}
    assert len(named) >= 17
    for name, value in named.items():
        rows = [row.at("ptb") for row in loaded.rows]
        assert any(domain.admits(value) for domain in possible_domains(name, rows)), name


def _best_of() -> tuple[str]:
    return ("text 4.2 (best Dual mdLSTM, PTB)",)


def _names(loaded: Space) -> list[str]:
    return [row.name for row in loaded.rows]


@pytest.mark.parametrize("name", [DOC, MOS])
def test_every_value_of_a_recipe_is_part_of_what_a_trial_is(name):
    """A different value of any row gives a different trial."""
    values = load(name).values("ptb")
    ids = [repr(resolve(values).identity)]
    for field, value in values.items():
        if field == "backbone.num_layers" or isinstance(value, str):
            continue
        other = not value if isinstance(value, bool) else [16, 5, 0, 0]
        if isinstance(value, int | float) and not isinstance(value, bool):
            other = value / 2 if isinstance(value, float) else value + 1
        ids.append(repr(resolve({**values, field: other}).identity))
    assert len(ids) > 20
    assert len(set(ids)) == len(ids)


def test_dual_samples_only_what_can_exist():
    loaded, chance = load(DUAL), random.Random(0)
    for _ in range(300):
        values = loaded.sample(draw(chance), "ptb")
        dual = values["bridge"] == "dual"
        assert ("bridge.units" in values) == dual == ("bridge.input_dropout" in values)
        assert not dual or values["bridge.units"] == values["embedding.size"]
        mogrifier = values["backbone"] == "mogrifier"
        assert ("backbone.rounds" in values) == mogrifier
        assert ("backbone.rank" in values) == (mogrifier and values["backbone.rounds"] != 0)
        assert ("backbone.units" in values) == (values["backbone.num_layers"] != 1)
        assert values["backbone.last_units"] == values["embedding.size"]
        assert isinstance(values.get("evaluator.dynamic.window", 5), int)
        assert values["training.batch_size"] == 32


def test_a_search_can_be_narrowed_by_fixing():
    loaded = load(DUAL)
    fixed = {"backbone": "mogrifier", "bridge": "dual", "Dynamic evaluation": False}
    fixed |= {"embedding.size": 850, "optimizer.learning_rate": 1e-4}
    suggested: list[str] = []

    def suggest(row: Row) -> Any:
        suggested.append(row.name)
        return draw(random.Random(len(suggested)))(row)

    values = loaded.sample(suggest, "wikitext-2", fixed)
    assert not set(suggested) & {"Backbone", "Bridge", "Dynamic evaluation", "Embedding units"}
    assert values["bridge.units"] == values["embedding.size"] == 850
    assert values["optimizer.learning_rate"] == 1e-4
    assert values["corpus.lowercase"] is True
    assert suggested.index("Mogrifier deep") < suggested.index("Mogrifier L2reg")


def test_the_list_of_spaces_shows_which_are_open(tmp_path, monkeypatch):
    folder = tmp_path / "search_spaces"
    folder.mkdir()
    (folder / "broken.toml").write_text("paper = 3\n")
    monkeypatch.chdir(tmp_path)
    listed = space.index()
    assert [listed[name].open for name in SHIPPED] == [False, False, True]
    assert listed[DOC] == load(DOC)
    assert str(listed["broken"]).startswith(f"{folder / 'broken.toml'}:1: ")
    page = list_spaces()
    # A long path makes the table a list, in which a name stands behind its column's.
    assert [name for name in SHIPPED if re.search(rf"\b{name}\b", page)] == list(SHIPPED)


def test_names_are_looked_up_here_then_near_the_study_then_in_the_checkout(tmp_path, monkeypatch):
    here, study_folder = tmp_path / "here", tmp_path / "there"
    for folder, paper in ((here, "here"), (study_folder, "near")):
        (folder / "search_spaces").mkdir(parents=True)
        text = SMALL.replace("somebody2020", paper)
        (folder / "search_spaces" / "small.toml").write_text(text)
    (here / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(here / "deep" / "er")
    assert load("small").paper == "here"
    assert load("small", near=study_folder / "study.py").paper == "here"
    monkeypatch.chdir(tmp_path)
    assert load("small", near=study_folder / "study.py").paper == "near"
    assert load("here/search_spaces/small.toml").paper == "here"
    assert load("search_spaces/small.toml", near=study_folder / "study.py").paper == "near"
    assert load(here / "search_spaces" / "small.toml").paper == "here"
    assert load(DOC).path.parent == ROOT / "search_spaces"
    with pytest.raises(SpaceError) as unknown:
        load("takase2018doc_tabel2")
    assert str(unknown.value) == (
        "unknown search space 'takase2018doc_tabel2'. Did you mean 'takase2018doc_table2'? "
        f"Expected one of: {NAMES}."
    )


def test_loading_sampling_and_printing_import_no_torch():
    code = (
        "import sys; from ablate.commands import spaces; from ablate.space import load; "
        "s = load('oliva2021dual_table3_4'); s.sample(lambda row: row.domain.ends[0], 'ptb'); "
        "spaces.show_space(s); spaces.list_spaces(); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
