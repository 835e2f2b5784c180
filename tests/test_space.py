"""Search spaces: what the shipped files say, sampling and enumerating, and every wrong file."""

from __future__ import annotations

import csv
import itertools
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate import fields, registry, space
from ablate.config import SECTIONS, resolve
from ablate.errors import SpaceError
from ablate.space import Space, SpaceViolation, load
from ablate.space_row import Choices, Fixed, Range, Row

ROOT = Path(__file__).parent.parent
TABLE = ROOT.parent / "shared" / "tables" / "hyperparameters.csv"
DOC, MOS, DUAL = "takase2018doc_table2", "yang2018mos", "oliva2021dual_table3_4"
SHIPPED = (DOC, MOS, DUAL)
CORPORA = {"PTB": "ptb", "WikiText-2": "wikitext-2"}


def text_of(name: str) -> str:
    return (ROOT / "search_spaces" / f"{name}.toml").read_text(encoding="utf-8")


def draw(chance: random.Random):
    """What a sampler would suggest."""

    def suggest(row: Row) -> Any:
        domain = row.domain
        if isinstance(domain, Choices):
            return chance.choice(domain.values)
        assert isinstance(domain, Range)
        low, high = domain.ends
        return chance.randint(low, high) if domain.integer else chance.uniform(low, high)

    return suggest


# --- The shipped files -----------------------------------------------------------------------


def printed(paper: str, *tables: str) -> list[dict[str, str]]:
    if not TABLE.exists():
        pytest.skip(f"the tables typed in are not here: {TABLE}")
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row for row in rows if row["paper_id"] == paper and row["table"] in tables]


def test_doc_is_its_table_in_order():
    rows = printed("003", "Table 2")
    names = list(dict.fromkeys(row["name"] for row in rows))
    found = load(DOC)
    assert [row.name for row in found.rows if row.printed] == names
    for row in rows:
        domain = found[row["name"]].at(CORPORA[row["applies_to"]]).domain
        assert isinstance(domain, Fixed)
        assert domain.value == float(row["values"])


def test_dual_is_its_tables_in_order():
    rows = printed("002", "Table 3", "Table 4")
    found = load(DUAL)
    ours = [row for row in found.rows if row.printed]
    assert [f"{row.name}{row.marker}" for row in ours] == [row["name"] for row in rows]
    assert [row.description for row in ours] == [row["description"] for row in rows]
    for row, typed in zip(ours, rows, strict=True):
        if isinstance(row.domain, Range):
            low, high = map(float, typed["values"].split(".."))
            assert (row.domain.low, row.domain.high) == (low, high)
        else:
            values = [end for domain in row.domains for end in domain.ends]
            assert values == [float(value) for value in typed["values"].split("|")]
        starred = "*" if typed["applies_to"] == "dual only" else ""
        assert row.marker == starred


def test_the_best_published_dual_is_in_its_space():
    best = {row["name"]: row["values"] for row in printed("002", *_best_of())}
    found = load(DUAL)
    named = {name: float(text) for name, text in best.items() if name in _names(found)}
    assert len(named) >= 17
    for name, value in named.items():
        domain = found[name].at("ptb").domain
        assert domain is not None
        assert domain.admits(value), name


def _best_of() -> tuple[str]:
    return ("text 4.2 (best Dual mdLSTM, PTB)",)


def _names(found: Space) -> list[str]:
    return [row.name for row in found.rows]


@pytest.mark.parametrize("name", [DOC, MOS])
@pytest.mark.parametrize("corpus", ["ptb", "wikitext-2"])
def test_recipes_are_whole_and_valid(name, corpus):
    found = load(name)
    found.check()
    assert not found.open
    assert found.open_rows(corpus) == []
    values = found.values(corpus)
    assert set(values) == found.fields
    config = resolve(values)
    assert config["optimizer"].name == "nt_asgd"
    assert list(found.enumerate(corpus)) == [values]
    assert found.sample(draw(random.Random(0)), corpus) == values


def test_recipes_have_the_published_sizes():
    from ablate.assemble import count_parameters

    counts = {
        (name, corpus): count_parameters(resolve(load(name).values(corpus)), vocabulary)
        for name in (DOC, MOS)
        for corpus, vocabulary in (("ptb", 10_000), ("wikitext-2", 33_278))
    }
    assert counts == {
        (DOC, "ptb"): 22_849_120,
        (DOC, "wikitext-2"): 36_639_278,
        (MOS, "ptb"): 21_500_620,
        (MOS, "wikitext-2"): 34_909_528,
    }


@pytest.mark.parametrize("name", [DOC, MOS])
def test_every_value_of_a_recipe_is_part_of_what_a_trial_is(name):
    """Another value anywhere gives another trial."""
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


def test_dual_names_registered_techniques_only():
    assert load(DUAL).problems() == []
    load(DUAL).check()


def test_dual_samples_only_what_can_exist():
    found, chance = load(DUAL), random.Random(0)
    refused = 0
    for _ in range(300):
        try:
            values = found.sample(draw(chance), "ptb")
        except SpaceViolation as violation:
            refused += 1
            assert violation.rules == ["Dual units = Embedding units"]
            assert violation.values["bridge.units"] != violation.values["embedding.size"]
            continue
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
    assert 30 < refused < 120


def test_a_search_can_be_narrowed_by_fixing():
    found = load(DUAL)
    fixed = {"backbone": "mogrifier", "bridge": "dual", "Dynamic evaluation": False}
    fixed |= {"embedding.size": 850, "Dual units": 850, "optimizer.learning_rate": 1e-4}
    asked: list[str] = []

    def suggest(row: Row) -> Any:
        asked.append(row.name)
        return draw(random.Random(len(asked)))(row)

    values = found.sample(suggest, "wikitext-2", fixed)
    assert not set(asked) & {"Backbone", "Bridge", "Dynamic evaluation", "Embedding units"}
    assert values["bridge.units"] == values["embedding.size"] == 850
    assert values["optimizer.learning_rate"] == 1e-4
    assert values["corpus.lowercase"] is True
    assert asked.index("Mogrifier deep") < asked.index("Mogrifier L2reg")


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("width", [60, 100, 200])
def test_a_file_prints_as_its_table(name, width):
    found = load(name)
    page = found.render(width)
    lines = page.splitlines()
    assert all(line == line.rstrip() for line in lines)
    assert page.startswith(f"{name}: {found.paper}, ")
    head = page.index("\nParameter ")
    starts = [page.index(f"\n{row.name}{row.marker}  ", head) for row in found.rows if row.printed]
    assert starts == sorted(starts)
    after = page.index("Not in the printed table")
    assert starts[-1] < after
    for row in found.rows:
        assert row.printed or page.index(f"\n{row.name}  ", after)
        assert row.field is None or f"  {row.field}" in page
        assert " ".join(row.condition.split()) in " ".join(page.split())
    for rule in found.rules:
        assert rule.text in page


def test_doc_prints_a_column_for_each_corpus():
    lines = load(DOC).render(100).splitlines()
    assert "Parameter                  ptb    wikitext-2" in lines
    assert "Learning rate              20     15" in lines
    assert "Dropout rate for h1t, h2t  0.225  0.2" in lines


def test_the_list_of_spaces_shows_which_are_open(tmp_path, monkeypatch):
    folder = tmp_path / "search_spaces"
    folder.mkdir()
    (folder / "broken.toml").write_text("paper = 3\n")
    monkeypatch.chdir(tmp_path)
    entries = {entry.name: entry for entry in space.index()}
    assert [entries[name].open for name in SHIPPED] == [False, False, True]
    assert entries[DOC].num_rows == len(load(DOC).rows)
    assert entries["broken"].problem.startswith(f"{folder / 'broken.toml'}:1: ")
    page = space.render_index()
    assert [name for name in SHIPPED if f"\n{name}  " in page] == list(SHIPPED)


def test_names_are_looked_up_here_then_beside_the_study_then_in_the_checkout(tmp_path, monkeypatch):
    here, beside = tmp_path / "here", tmp_path / "there"
    for folder, paper in ((here, "here"), (beside, "beside")):
        (folder / "search_spaces").mkdir(parents=True)
        text = SMALL.replace("somebody2020", paper)
        (folder / "search_spaces" / "small.toml").write_text(text)
    (here / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(here / "deep" / "er")
    assert load("small").paper == "here"
    assert load("small", near=beside / "study.py").paper == "here"
    monkeypatch.chdir(tmp_path)
    assert load("small", near=beside / "study.py").paper == "beside"
    assert load("here/search_spaces/small.toml").paper == "here"
    assert load("search_spaces/small.toml", near=beside / "study.py").paper == "beside"
    assert load(here / "search_spaces" / "small.toml").paper == "here"
    assert load(DOC).path.parent == ROOT / "search_spaces"
    with pytest.raises(SpaceError) as unknown:
        load("takase2018doc_tabel2")
    assert str(unknown.value) == (
        "unknown search space 'takase2018doc_tabel2'. Did you mean 'takase2018doc_table2'? "
        f"Allowed: {', '.join(sorted(p.stem for p in (ROOT / 'search_spaces').glob('*.toml')))}."
    )


def test_loading_sampling_and_printing_import_no_torch():
    code = (
        "import sys; from ablate import space; s = space.load('oliva2021dual_table3_4'); "
        "s.render(); space.render_index(); next(s.enumerate('ptb', points=2)); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


# --- What rows, conditions and rules mean ----------------------------------------------------

SMALL = """\
paper = "somebody2020"
tables = ["Table 1"]
require = ["Units <= Width", "Depth in [1, 2, 3] and Width >= 2"]

["Rate"]
field = "optimizer.learning_rate"
range = [1e-3, 1.0]
scale = "log"

["Epochs"]
field = "training.epochs"
range = [1, 5]
integer = true

["Rank and file"]
field = "backbone.rank"
choices = [0, 50]
when = "Kind = mogrifier and Depth != 1"

["Kind"]
field = "backbone"
choices = ["lstm", "mogrifier"]

["Depth"]
choices = [1, 2, 3]

["Units"]
field = "backbone.units"
choices = [2, 4]
when = "Rank and file in [0]"

["Width"]
field = "embedding.size"
choices = [2, 4]

["Last"]
field = "backbone.last_units"
same_as = "Width"

["Batch"]
field = "training.batch_size"
value = { ptb = 20, "wikitext-2" = 80 }
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def small(tmp_path) -> Space:
    return load(written(tmp_path, SMALL))


def test_rows_are_asked_for_once_their_conditions_are_known(small):
    asked: list[str] = []

    def suggest(row: Row) -> Any:
        asked.append(row.name)
        domain = row.domain
        return domain.values[-1] if isinstance(domain, Choices) else domain.ends[0]

    assert small.sample(suggest, "ptb") == {
        "optimizer.learning_rate": 1e-3,
        "training.epochs": 1,
        "backbone.rank": 50,
        "backbone": "mogrifier",
        "embedding.size": 4,
        "backbone.last_units": 4,
        "training.batch_size": 20,
    }
    assert asked == ["Rate", "Epochs", "Kind", "Depth", "Rank and file", "Width"]


def test_open_rows_and_fixed_values(small):
    assert [row.name for row in small.open_rows("ptb")] == [
        *("Rate", "Epochs", "Rank and file", "Kind", "Depth", "Units", "Width"),
    ]
    assert small.values("wikitext-2") == {"training.batch_size": 80}
    assert small.values("ptb", {"Width": 4}) == {
        "embedding.size": 4,
        "backbone.last_units": 4,
        "training.batch_size": 20,
    }
    assert small.corpora == ("ptb", "wikitext-2")


def test_a_broken_rule_is_seen(small):
    fixed = {"backbone": "mogrifier", "Depth": 2, "Rank and file": 0, "Units": 4, "Width": 2}
    with pytest.raises(SpaceViolation) as broken:
        small.sample(draw(random.Random(0)), "ptb", {**fixed, "Rate": 0.1, "Epochs": 2})
    assert broken.value.rules == ["Units <= Width"]
    assert broken.value.values["backbone.units"] == 4
    assert str(broken.value).startswith(f"{small.path}:3: these values break the rule 'Units <=")
    assert small.violated(broken.value.values) == ["Units <= Width"]
    assert small.violated({"embedding.size": 2, "backbone.units": 2}) == []
    assert small.violated({"embedding.size": 2}) == []
    every = list(small.enumerate("ptb", points=2))
    assert every
    assert not any(small.violated(values) for values in every)


def test_enumerating_needs_points_for_a_range_and_none_for_whole_numbers(small):
    fixed = {"Kind": "lstm", "Depth": 1, "Width": 2}
    with pytest.raises(SpaceError) as error:
        next(small.enumerate("ptb", fixed))
    assert str(error.value) == (
        f"{small.path}:5: row 'Rate': the range 0.001 .. 1.0, log scale is continuous and cannot "
        "be enumerated. Say how many points of it to take, or fix it."
    )
    epochs = [v["training.epochs"] for v in small.enumerate("ptb", {**fixed, "Rate": 0.1})]
    assert epochs == [1, 2, 3, 4, 5]
    rates = [
        v["optimizer.learning_rate"]
        for v in small.enumerate("ptb", {**fixed, "training.epochs": 1}, points=4)
    ]
    assert rates == pytest.approx([0.001, 0.01, 0.1, 1.0])
    with pytest.raises(SpaceError, match=r"points = 1 is not allowed\. Allowed: 2 or more"):
        small.enumerate("ptb", points=1)


def test_a_corpus_that_the_table_does_not_have_is_refused(small):
    for ask in (small.values, small.open_rows):
        with pytest.raises(SpaceError) as error:
            ask("wikitext2")
        assert str(error.value) == (
            f"{small.path}:1: the values differ by corpus: unknown corpus 'wikitext2'. "
            "Did you mean 'wikitext-2'? Allowed: ptb, wikitext-2."
        )
    with pytest.raises(SpaceError, match="unknown corpus 'None'"):
        small.values()


def test_a_suggestion_outside_its_row_is_refused(small):
    with pytest.raises(SpaceError) as error:
        small.sample(lambda row: 2.0, "ptb")
    assert str(error.value) == (
        f"{small.path}:5: row 'Rate': 2.0 was suggested. Allowed: 0.001 .. 1.0, log scale."
    )


def test_a_condition_on_a_field_outside_the_file_is_told_by_what_is_fixed(tmp_path):
    text = SMALL.replace("Kind = mogrifier", "head = doc")
    found = load(written(tmp_path, text))
    every = list(found.enumerate("ptb", {"head": "doc", "Rate": 1, "Depth": 2}))
    assert any("backbone.rank" in values for values in every)
    base = {"head": "mos", "training.epochs": 99}
    every = list(found.enumerate("ptb", {"Rate": 1, "Depth": 2}, base=base))
    assert {values["training.epochs"] for values in every} == {1, 2, 3, 4, 5}
    assert not any("backbone.rank" in values for values in every)
    with pytest.raises(SpaceError) as error:
        found.values("ptb")
    assert str(error.value) == (
        f"{found.path}:15: row 'Rank and file': when 'head = doc and Depth != 1' needs 'head', "
        "which no row of this file sets. Give it in the base or in the arm."
    )


def test_slots_that_have_a_default_can_be_asked_about(tmp_path):
    found = load(written(tmp_path, SMALL.replace("Kind = mogrifier", "bridge = none")))
    assert "backbone.rank" in next(found.enumerate("ptb", {"Rate": 1, "Depth": 2}))


def test_a_field_may_have_rows_whose_conditions_exclude_each_other(tmp_path):
    more = '\n["Few"]\nfield = "training.window"\nvalue = 5\nwhen = "Depth = 1"\n'
    more += '\n["Many"]\nfield = "training.window"\nvalue = 50\nwhen = "Depth > 1"\n'
    found = load(written(tmp_path, SMALL + more))
    windows = {
        depth: next(found.enumerate("ptb", {"Rate": 1, "Depth": depth}))["training.window"]
        for depth in (1, 2)
    }
    assert windows == {1: 5, 2: 50}
    found = load(written(tmp_path, SMALL + more.replace("Depth > 1", "Depth >= 1")))
    with pytest.raises(SpaceError) as error:
        next(found.enumerate("ptb", {"Rate": 1, "Depth": 1}))
    assert str(error.value) == (
        f"{found.path}:49: row 'Many': field 'training.window' is set by row 'Few' (line 44) at "
        "the same time. Allowed: conditions that exclude each other."
    )


def test_prose_and_place_are_no_part_of_what_a_space_is(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    one = load(written(tmp_path, SMALL))
    other = load(written(tmp_path / "elsewhere", "\n# moved\n" + SMALL + 'note = "a remark"\n'))
    assert one.identity == other.identity
    assert repr(one.rows) == repr(other.rows)
    changed = load(written(tmp_path, SMALL.replace("[1, 5]", "[1, 6]")))
    assert changed.identity != one.identity
    changed = load(written(tmp_path, SMALL.replace("Units <= Width", "Units < Width")))
    assert changed.identity != one.identity


# --- Properties ------------------------------------------------------------------------------

FIELDS = [f"training.{name}" for name in ("epochs", "window", "batch_size", "accumulate", "clip")]


@dataclass
class Drawn:
    """A random file, as it was meant."""

    choices: list[list[int] | None]  # by row; None: tied
    tied: list[int | None]
    when: list[list[tuple[int, str, Any]]]  # each row's comparisons with earlier rows
    rules: list[tuple[int, str, int]]
    order: list[int]  # in which the rows are written

    def text(self) -> str:
        rules = [f"R{a} {op} R{b}" for a, op, b in self.rules]
        lines = ['paper = "p"', 'tables = ["T"]', f"require = {rules}".replace("'", '"')]
        for i in self.order:
            lines += [f'["R{i}"]', f'field = "{FIELDS[i]}"']
            lines += [f"choices = {self.choices[i]}"] if self.choices[i] else []
            lines += [f'same_as = "R{self.tied[i]}"'] if self.tied[i] is not None else []
            clauses = [f"R{j} {op} {value}" for j, op, value in self.when[i]]
            lines += [f'when = "{" and ".join(clauses)}"'] if clauses else []
        return "\n".join(lines) + "\n"

    def brute_force(self) -> list[dict[str, int]]:
        """Every assignment of every row, reduced to what counts."""
        results = []
        for picked in itertools.product(*(choices or [0] for choices in self.choices)):
            values: dict[int, int] = {}
            for i, value in enumerate(picked):
                if all(j in values and _holds(values[j], op, v) for j, op, v in self.when[i]):
                    source = self.tied[i]
                    if source is None:
                        values[i] = value
                    elif source in values:
                        values[i] = values[source]
            if self.keeps_rules(values):
                flat = {FIELDS[i]: values[i] for i in self.order if i in values}
                if flat not in results:
                    results.append(flat)
        return results

    def keeps_rules(self, values: dict[int, int]) -> bool:
        return all(
            _holds(values[a], op, values[b])
            for a, op, b in self.rules
            if a in values and b in values
        )


def _holds(left: int, op: str, right: Any) -> bool:
    if op == "in":
        return left in right
    return {"=": left == right, "!=": left != right, "<=": left <= right}[op]


@st.composite
def drawn_files(draw) -> Drawn:
    count = draw(st.integers(1, len(FIELDS)))
    values = st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)
    choices: list[list[int] | None] = []
    tied: list[int | None] = []
    when: list[list[tuple[int, str, Any]]] = []
    reach: list[list[int]] = []  # what each row can be
    for i in range(count):
        source = draw(st.integers(0, i - 1)) if i and draw(st.integers(0, 3)) == 0 else None
        own = None if source is not None else draw(values)
        choices.append(own)
        tied.append(source)
        reach.append(own if source is None else reach[source])  # type: ignore[arg-type]
        clauses: list[tuple[int, str, Any]] = []
        for _ in range(draw(st.integers(0, 2)) if i else 0):
            other = draw(st.integers(0, i - 1))
            op = draw(st.sampled_from(["=", "!=", "in", "<="]))
            value = draw(st.sampled_from(reach[other]))
            some = draw(st.lists(st.sampled_from(reach[other]), min_size=1, unique=True))
            clauses.append((other, op, some if op == "in" else value))
        when.append(clauses)
    pairs = st.tuples(
        st.integers(0, count - 1), st.sampled_from(["=", "!=", "<="]), st.integers(0, count - 1)
    )
    rules = draw(st.lists(pairs, max_size=2))
    return Drawn(choices, tied, when, rules, draw(st.permutations(range(count))))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("drawn")


@settings(max_examples=150, deadline=None)
@given(file=drawn_files(), seed=st.integers(0, 99))
def test_enumerating_is_brute_force_and_sampling_stays_inside(scratch, file, seed):
    found = load(written(scratch, file.text()))
    expected = file.brute_force()
    every = list(found.enumerate())
    assert len(every) == len(expected)
    assert all(values in expected for values in every)
    chance = random.Random(seed)
    for _ in range(5):
        try:
            values = found.sample(draw(chance))
        except SpaceViolation as violation:
            assert violation.rules
            assert violation.values not in expected
        else:
            assert values in expected
            assert found.violated(values) == []


@given(
    low=st.floats(1e-9, 1e6),
    span=st.floats(1e-3, 1e6),
    log=st.booleans(),
    num=st.integers(2, 20),
)
def test_points_of_a_range_include_both_ends(low, span, log, num):
    domain = Range(low, low + span, log=log)
    points = domain.points(num)
    assert points is not None
    assert len(points) == num
    assert (points[0], points[-1]) == domain.ends
    assert list(points) == sorted(points)
    assert all(domain.admits(point) for point in points)
    assert not domain.admits(low - 1)
    assert not domain.admits(low + span + 1)


@given(low=st.integers(-50, 50), span=st.integers(1, 60), num=st.integers(2, 20))
def test_whole_ranges_have_whole_points(low, span, num):
    domain = Range(low, low + span, integer=True)
    assert domain.points(None) == tuple(range(low, low + span + 1))
    points = domain.points(num)
    assert points is not None
    assert (points[0], points[-1]) == domain.ends
    assert len(set(points)) == len(points) <= num
    assert all(isinstance(point, int) and domain.admits(point) for point in points)
    assert not domain.admits(low + 0.5)
    assert not domain.admits(True)


# --- Wrong files, by kind --------------------------------------------------------------------

KEYS = (
    "field, same_as, when, description, marker, note, source, value, choices, range, scale, "
    "integer, printed"
)
GIVE_ONE = "Give exactly one of value, choices, range, same_as."
RANGE = "[low, high], two numbers, the lower one first"
ROOMS = (
    "corpus, embedding, training, backbone, bridge, head, gate, loss, regularizer, optimizer, "
    "evaluator"
)
SOURCES = {**{name: text_of(name) for name in SHIPPED}, "small": SMALL}


@dataclass
class Wrong:
    """A mutated file, the line and row that its error names, and the rest of the text."""

    kind: str
    lines: list[str]
    line: int
    row: str | None
    rest: str


class Written:
    """A valid file by line, to be mutated."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.headers = {
            line[2:-2]: n for n, line in enumerate(self.lines, 1) if line.startswith('["')
        }
        self.keys: dict[str, dict[str, int]] = {}
        row = None
        for number, line in enumerate(self.lines, start=1):
            row = line[2:-2] if line.startswith('["') else row
            if row is not None and " = " in line and line[0].isalpha():
                self.keys.setdefault(row, {})[line.split(" = ")[0]] = number

    def put(self, number: int, *lines: str) -> list[str]:
        """These lines instead of one."""
        return [*self.lines[: number - 1], *lines, *self.lines[number:]]

    def add(self, row: str, line: str) -> tuple[list[str], int]:
        """A line after the row's last."""
        last = max(self.keys[row].values())
        return self.put(last, self.lines[last - 1], line), last + 1

    def value(self, row: str) -> tuple[str, int]:
        found = [key for key in ("value", "choices", "range", "same_as") if key in self.keys[row]]
        return found[0], self.keys[row][found[0]]

    def of(self, key: str) -> Iterator[tuple[str, int]]:
        return ((row, keys[key]) for row, keys in self.keys.items() if key in keys)


def unknown_keys(file: Written) -> Iterator[Wrong]:
    for row, keys in file.keys.items():
        for key, number in keys.items():
            lines = file.put(number, file.lines[number - 1].replace(key, f"{key}x", 1))
            rest = f"unknown key '{key}x'. Did you mean '{key}'? Allowed: {KEYS}."
            yield Wrong("unknown key", lines, number, row, rest)


def wrong_types(file: Written) -> Iterator[Wrong]:
    text = ("7", "7", "text")
    flag = ('"yes"', "'yes'", "true or false")
    kinds = {
        **dict.fromkeys(("field", "same_as", "when", "description", "marker"), text),
        **dict.fromkeys(("note", "source"), text),
        **dict.fromkeys(("printed", "integer"), flag),
        "choices": ("7", "7", "a list of at least one value"),
        "range": ('"wide"', "'wide'", RANGE),
        "value": (
            "1979-05-27",
            "datetime.date(1979, 5, 27)",
            "text, true or false, a number, or a list of these",
        ),
    }
    for key, (found, shown, allowed) in kinds.items():
        for row, number in file.of(key):
            rest = f"{key} = {shown} is not allowed. Allowed: {allowed}."
            yield Wrong("wrong type", file.put(number, f"{key} = {found}"), number, row, rest)


def values_that_are_no_numbers(file: Written) -> Iterator[Wrong]:
    allowed = "text, true or false, a number, or a list of these"
    for row, number in file.of("value"):
        for found in (("nan", "inf")[number % 2],):
            rest = f"value = {found} is not allowed. Allowed: {allowed}."
            yield Wrong("no number", file.put(number, f"value = {found}"), number, row, rest)


def no_value(file: Written) -> Iterator[Wrong]:
    for row, header in file.headers.items():
        _, number = file.value(row)
        yield Wrong("no value", file.put(number), header, row, f"has no value. {GIVE_ONE}")


def two_values(file: Written) -> Iterator[Wrong]:
    order = ["value", "choices", "range", "same_as"]
    for row in file.headers:
        key, number = file.value(row)
        other = "choices" if key == "range" else "range"
        lines, added = file.add(row, f"{other} = [1, 2]")
        first, second = sorted((key, other), key=order.index)
        line = added if second == other else number
        rest = f"gives '{first}' and '{second}'. {GIVE_ONE}"
        yield Wrong("two values", lines, line, row, rest)


def wrong_ranges(file: Written) -> Iterator[Wrong]:
    for row, number in file.of("range"):
        keys = file.keys[row]
        for found in ("[2, 1]", "[1, 1]", "[1]", "[]", "[1, 2, 3]", "['a', 'b']", "[true, 2]"):
            shown = found.replace("true", "True")
            rest = f"range = {shown} is not allowed. Allowed: {RANGE}."
            yield Wrong("wrong range", file.put(number, f"range = {found}"), number, row, rest)
        if "scale" in keys:
            rest = "range = [0, 1] is not allowed. Allowed: ends above 0, on a log scale."
            yield Wrong("log of 0", file.put(number, "range = [0, 1]"), number, row, rest)
            for found in ("lgo", "linaer"):
                meant = {"lgo": "log", "linaer": "linear"}[found]
                rest = f"unknown scale '{found}'. Did you mean '{meant}'? Allowed: linear, log."
                lines = file.put(keys["scale"], f'scale = "{found}"')
                yield Wrong("wrong scale", lines, keys["scale"], row, rest)
        if "integer" in keys:
            rest = "range = [0.5, 2] is not allowed. Allowed: whole numbers, with integer = true."
            yield Wrong("no integer", file.put(number, "range = [0.5, 2]"), number, row, rest)


def wrong_choices(file: Written) -> Iterator[Wrong]:
    for row, number in file.of("choices"):
        rest = "choices = [] is not allowed. Allowed: a list of at least one value."
        yield Wrong("no choices", file.put(number, "choices = []"), number, row, rest)
        rest = "choices = [8, 9, 8] is not allowed. Allowed: each value once, not two 8."
        yield Wrong("choices twice", file.put(number, "choices = [8, 9, 8]"), number, row, rest)


def scales_of_no_range(file: Written) -> Iterator[Wrong]:
    for row in file.headers:
        key, _ = file.value(row)
        if key == "range":
            continue
        for extra in ('scale = "log"', "integer = true"):
            lines, line = file.add(row, extra)
            name = extra.split(" = ")[0]
            rest = f"'{name}' goes with 'range' only, and this has {key}."
            yield Wrong("scale of no range", lines, line, row, rest)


def missing_sources(file: Written) -> Iterator[Wrong]:
    for row, number in file.of("printed"):
        lines = file.put(file.keys[row]["source"], "")
        rest = "a row that the paper does not print needs a 'source'."
        yield Wrong("no source", lines, number, row, rest)


def dangling(file: Written) -> Iterator[Wrong]:
    rows = list(file.headers)
    all_rows = ", ".join(rows)
    fields = [
        file.lines[keys["field"] - 1].split('"')[1]
        for keys in file.keys.values()
        if "field" in keys
    ]
    slots = ["backbone", "bridge", "head", "gate", "loss", "optimizer"]
    known = ", ".join(dict.fromkeys([*rows, *fields, *slots]))
    for row in rows:
        number = file.value(row)[1]
        target = f"{rows[0]}s"
        lines = file.put(number, f'same_as = "{target}"')
        for extra in ("scale", "integer"):
            if extra in file.keys[row]:
                lines[file.keys[row][extra] - 1] = ""
        rest = f"same_as: unknown row '{target}'. Did you mean '{rows[0]}'? Allowed: {all_rows}."
        yield Wrong("dangling same_as", lines, number, row, rest)
        rest = f"unknown row or field '{target}'. Did you mean '{rows[0]}'? Allowed: {known}."
        number = file.keys[row].get("when")
        line = f'when = "{target} = 1"'
        lines, number = (file.put(number, line), number) if number else file.add(row, line)
        yield Wrong("dangling when", lines, number, row, f"when: {rest}")
        lines = [*file.lines, ""]
        top = next(n for n, text in enumerate(lines, start=1) if text.startswith("tables"))
        lines = [text for text in lines if not text.startswith(("require", "    ", "]"))]
        lines.insert(top, f'require = ["{target} = {row}"]')
        yield Wrong("dangling require", lines, top + 1, None, f"require: {rest}")


def duplicate_fields(file: Written) -> Iterator[Wrong]:
    plain = [row for row in file.headers if "when" not in file.keys[row]]
    having = [row for row in plain if "field" in file.keys[row]]
    for first, second in itertools.pairwise(having):
        field = file.lines[file.keys[first]["field"] - 1].split('"')[1]
        lines = file.put(file.keys[second]["field"], f'field = "{field}"')
        rest = (
            f"field '{field}' is already set by row '{first}' (line {file.headers[first]}). "
            "Allowed: one row for a field, or several that each have a 'when'."
        )
        yield Wrong("field twice", lines, file.headers[second], second, rest)


def wrong_fields(file: Written) -> Iterator[Wrong]:
    for row, number in file.of("field"):
        field = file.lines[number - 1].split('"')[1]
        room = field.split(".")[0]
        bad = f"{room}s{field[len(room) :]}"
        rest = (
            f"field '{bad}': unknown slot or section '{room}s'. Did you mean '{room}'? "
            f"Allowed: {ROOMS}."
        )
        yield Wrong("unknown slot", file.put(number, f'field = "{bad}"'), number, row, rest)
        for bad in ((f"{field}.a.b", f"{field}..x", f"{field}[x]")[number % 3],):
            name = f"{room}.<technique>.<field>"
            form = name if room in ("regularizer", "evaluator") else f"{room}.<field>"
            rest = f"field = '{bad}' is not allowed. Allowed: '{form}', an element '{form}[0]'."
            yield Wrong("no field", file.put(number, f'field = "{bad}"'), number, row, rest)


def no_toml(file: Written) -> Iterator[Wrong]:
    for row, header in file.headers.items():
        key, number = file.value(row)
        text = file.lines[number - 1]
        lines = file.put(number, text.replace(" = ", " ", 1))
        column = len(key) + 2
        rest = f"this is no TOML: Expected '=' after a key in a key/value pair (column {column})."
        yield Wrong("no TOML", lines, number, row, rest)
        lines = file.put(number, f"{key} = ")
        rest = f"this is no TOML: Invalid value (column {column + 2})."
        yield Wrong("no TOML", lines, number, row, rest)
        lines = file.put(number, text, text)
        rest = f"this is no TOML: Cannot overwrite a value (column {len(text) + 1})."
        yield Wrong("key twice", lines, number + 1, row, rest)
        lines = [*file.lines, file.lines[header - 1]]
        rest = f"this is no TOML: Cannot declare ('{row}',) twice (column {len(lines[-1])})."
        yield Wrong("row twice", lines, len(lines), row, rest)


def misplaced(file: Written) -> Iterator[Wrong]:
    for row, header in file.headers.items():
        key = ("paper", "tables", "require")[header % 3]
        lines, line = file.add(row, f'{key} = ["x"]')
        rest = f"the key '{key}' belongs above the first row."
        yield Wrong("misplaced", lines, line, row, rest)


def wrong_corpora(file: Written) -> Iterator[Wrong]:
    differing = [(row, n) for row, n in file.of("value") if "{" in file.lines[n - 1]]
    if len(differing) < 3:
        return
    for row, number in differing:
        text = file.lines[number - 1]
        rest = "unknown corpus 'ptbb'. Did you mean 'ptb'? Allowed: ptb, wikitext-2."
        lines = file.put(number, text.replace("ptb", "ptbb"))
        yield Wrong("unknown corpus", lines, number, row, rest)
        rest = "has no value for the corpus 'wikitext-2'. Allowed: one for each of ptb, wikitext-2."
        yield Wrong("no corpus", file.put(number, "value = { ptb = 1 }"), number, row, rest)
        rest = "value = {} is not allowed. Allowed: a value for each corpus."
        yield Wrong("no corpora", file.put(number, "value = {}"), number, row, rest)
        rest = (
            "corpus 'ptb': value = {'a': 1} is not allowed. Allowed: text, true or false, a "
            "number, or a list of these."
        )
        lines = file.put(number, 'value = { ptb = { a = 1 }, "wikitext-2" = 1 }')
        yield Wrong("wrong corpus", lines, number, row, rest)


def circles(file: Written) -> Iterator[Wrong]:
    rows = list(file.headers)
    for row in rows:
        _, number = file.value(row)
        lines = file.put(number, f'same_as = "{row}"')
        for extra in ("scale", "integer"):
            if extra in file.keys[row]:
                lines[file.keys[row][extra] - 1] = ""
        if any(f'"{row}' in line or f" {row} " in line for line in file.lines if "when" in line):
            continue  # others hang on it: their condition can then never hold
        rest = f"these rows wait for each other: {row} -> {row}."
        yield Wrong("circle", lines, file.headers[row], row, rest)


KINDS = (
    unknown_keys, wrong_types, values_that_are_no_numbers, no_value, two_values, wrong_ranges,
    wrong_choices, scales_of_no_range, missing_sources, dangling, duplicate_fields, wrong_fields,
    no_toml, misplaced, wrong_corpora, circles,
)  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_wrong_file_is_refused_by_line_and_row(kind, source, tmp_path):
    file = Written(SOURCES[source])
    for wrong in kind(file):
        path = written(tmp_path, "\n".join(wrong.lines) + "\n")
        with pytest.raises(SpaceError) as error:
            load(path)
        place = f"{path}:{wrong.line}: " + (f"row '{wrong.row}': " if wrong.row else "")
        assert str(error.value) == place + wrong.rest, (wrong.kind, wrong.row)


def test_there_are_several_hundred_wrong_files():
    count = sum(len(list(kind(Written(text)))) for kind in KINDS for text in SOURCES.values())
    assert count > 2000


BESIDE = {
    "paper = 7\ntables = []": ":1: paper = 7 is not allowed. Allowed: text.",
    'paper = "p"\npapre = "p"\n': ":2: unknown key 'papre'. Did you mean 'paper'? Allowed: paper, "
    "tables, note, require.",
    'tables = ["T"]\n': ":1: the key 'paper' is required and was not given.",
    'paper = "p"\n': ":1: the key 'tables' is required and was not given.",
    'paper = "p"\ntables = "T"\n': ":2: tables = 'T' is not allowed. Allowed: a list of texts.",
    'paper = "p"\ntables = []\nnote = 3\n': ":3: note = 3 is not allowed. Allowed: text.",
    'paper = "p"\ntables = []\nrequire = [3]\n': ":3: require = [3] is not allowed. "
    "Allowed: a list of texts.",
    'paper = "p"\ntables = []\n': ':1: the file has no rows; one reads ["Row name"].',
    '[paper]\nvalue = 3\n["Row"]\nvalue = 3\n': ":1: paper = {'value': 3} is not allowed. "
    "Allowed: no table.",
    'paper = "p"\ntables = []\n[["Row"]]\nvalue = 3\n': ":1: unknown key 'Row'. "
    "Allowed: paper, tables, note, require.",
    'paper = "p': ":1: this is no TOML: Unterminated string.",
    "": ":1: the key 'paper' is required and was not given.",
    "\x00": ":1: this is no TOML: Invalid statement (column 1).",
}


@pytest.mark.parametrize("text", BESIDE)
def test_what_stands_above_the_rows_is_checked_too(text, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(SpaceError) as error:
        load(path)
    assert str(error.value) == f"{path}{BESIDE[text]}"


CONDITIONS = {
    "Kind = mogrfier": "'Kind' is never 'mogrfier'. Did you mean 'mogrifier'? "
    "Allowed: lstm | mogrifier.",
    "backbone != rhn": "'backbone' is never 'rhn'. Allowed: lstm | mogrifier.",
    "Depth in [1, 9]": "'Depth' is never 9. Allowed: 1 | 2 | 3.",
    "Depth = true": "'Depth' is never True. Allowed: 1 | 2 | 3.",
    "Epochs = 9": "'Epochs' is never 9. Allowed: 1 .. 5, whole.",
    "Last = 3": "'Last' is never 3. Allowed: 2 | 4.",
    "Depth < deep": "'Depth < deep' compares by size; 'deep' has none.",
}
UNREADABLE = (
    "Kind",
    "Kind mogrifier",
    "Kind = ",
    "Kind in mogrifier",
    "Kind == lstm",
    "Kind = [1]",
)


@pytest.mark.parametrize("condition", [*CONDITIONS, *UNREADABLE])
def test_a_condition_that_cannot_be_is_refused(condition, tmp_path):
    text = SMALL.replace("Kind = mogrifier and Depth != 1", condition)
    path = written(tmp_path, text)
    with pytest.raises(SpaceError) as error:
        load(path)
    cannot = (
        f"'{condition}' cannot be read. Allowed: 'NAME = VALUE', with = != < <= > >= or "
        "'in [..]', joined by ' and '."
    )
    rest = CONDITIONS.get(condition, cannot)
    assert str(error.value) == f"{path}:18: row 'Rank and file': when: {rest}"


RULES = {
    "Units <= Widht": "'Units <= Widht' compares by size; 'Widht' has none.",
    "Units = Widht": "'Units' is never 'Widht'. Did you mean 'Width'? Allowed: 2 | 4, or a row.",
    "Unitz = Width": "unknown row or field 'Unitz'. Did you mean 'Units'? Allowed: ",
    "Units = embedding.sise": "unknown row or field of a row 'embedding.sise'. Did you mean "
    "'embedding.size'? Allowed: Rate, ",
    "Units = 3": "'Units' is never 3. Allowed: 2 | 4, or a row.",
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_about_nothing_is_refused(rule, tmp_path):
    path = written(tmp_path, SMALL.replace("Units <= Width", rule))
    with pytest.raises(SpaceError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}:3: require: {RULES[rule]}")


def test_a_longer_circle_is_named_whole(tmp_path):
    text = SMALL.replace(
        'choices = ["lstm", "mogrifier"]', 'choices = ["lstm"]\nwhen = "Units = 2"'
    )
    path = written(tmp_path, text.replace("Kind = mogrifier", "Kind = lstm"))
    with pytest.raises(SpaceError) as error:
        load(path)
    assert str(error.value) == (
        f"{path}:15: row 'Rank and file': these rows wait for each other: "
        "Rank and file -> Kind -> Units -> Rank and file."
    )


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SpaceError) as error:
        load(path)
    assert str(error.value) == f"{path}:1: not a text file in UTF-8 (invalid start byte)."
    with pytest.raises(SpaceError, match=r"unknown search space '/no/such\.toml'"):
        load("/no/such.toml")


# --- Wrong against the registry --------------------------------------------------------------


def wrong_in_registry(name: str) -> Iterator[Wrong]:
    """Each field misspelt, its technique misspelt, its value of another type or out of range."""
    file, values = Written(text_of(name)), load(name).values("ptb")
    for row, number in file.of("field"):
        field = file.lines[number - 1].split('"')[1]
        if "." not in field:
            rest = f"unknown {field} '{values[field]}x'."
            key, line = file.value(row)
            lines = file.put(line, f'{key} = "{values[field]}x"')
            yield Wrong("technique", lines, file.headers[row], row, rest)
            continue
        key = field.split("[")[0].split(".")[-1]
        config, place = _config(field, values)
        known = [info.name for info in fields.describe(config)]
        lines = file.put(number, f'field = "{field.replace(key, key + "x")}"')
        allowed = ", ".join(known)
        rest = f"{place}: unknown field '{key}x'. Did you mean '{key}'? Allowed: {allowed}."
        yield Wrong("field", lines, file.headers[row], row, rest)
        info = next(info for info in fields.describe(config) if info.name == key)
        for bad in _bad_values(info):
            kind, line = file.value(row)
            if kind == "same_as":
                continue
            shown = repr([bad] if "[" in field else bad)
            lines = file.put(line, f"value = {bad!r}".replace("'", '"'))
            rest = f"{place}.{key} = {shown} is not allowed. Allowed: {info.allowed}."
            yield Wrong("value", lines, file.headers[row], row, rest)


def _config(field: str, values: dict[str, Any]) -> tuple[type, str]:
    room, name, *_ = field.split(".")
    if room in SECTIONS:
        return SECTIONS[room], room
    technique = name if room == "regularizer" else values[room]
    return registry.get(room, technique).config, f"{room} {technique}"


def _bad_values(info: fields.FieldInfo) -> list[Any]:
    bad: list[Any] = [] if info.type.startswith("text") else ["many"]
    if info.limits.low is not None:
        bad.append(int(info.limits.low) - 1)
    if info.limits.high is not None:
        bad.append(info.limits.high + 1)
    if info.limits.choices is not None:
        bad.append("no such")
    if info.type.startswith("whole"):
        bad.append(2.5)
    return bad


@pytest.mark.parametrize("name", [DOC, MOS])
def test_what_the_registry_does_not_have_is_refused(name, tmp_path):
    count = 0
    for wrong in wrong_in_registry(name):
        path = written(tmp_path, "\n".join(wrong.lines) + "\n")
        with pytest.raises(SpaceError) as error:
            load(path).check()
        text = f"{path}:{wrong.line}: row '{wrong.row}': {wrong.rest}"
        if wrong.kind == "technique":  # other rows' fields are then unknown as well
            texts = load(path).problems()
            assert any(found.startswith(text) for found in texts)
        else:
            assert str(error.value) == text
        count += 1
    assert count > 90


def test_ends_and_choices_are_checked_like_values(tmp_path):
    path = written(tmp_path, OPEN)
    load(path).check()
    wrong = {
        "range = [1e-3, 1.0]": ("range = [-1, 1]", "Rate", "optimizer sgd.learning_rate = -1.0"),
        "range = [1, 5]\ninteger = true": ("range = [1, 5]", "Epochs", "training.epochs = 1.0"),
        "choices = [0, 0.5]": ("choices = [0, 5]", "Drop", "regularizer weight_drop.rate = 5"),
        "lstm": ("ltsm", "Units", "unknown backbone 'ltsm'."),
        "choices = [2, 4]": ("choices = [2, 0]", "Units", "backbone lstm.units = 0"),
    }
    for before, (after, row, found) in wrong.items():
        path = written(tmp_path, OPEN.replace(before, after))
        changed = load(path)
        with pytest.raises(SpaceError) as error:
            changed.check()
        assert str(error.value).startswith(f"{path}:{changed[row].line}: row '{row}': {found}")
        assert ("Add integer = true to the row." in str(error.value)) == (row == "Epochs")


OPEN = """\
paper = "somebody2020"
tables = ["Table 1"]

["Rate"]
field = "optimizer.learning_rate"
range = [1e-3, 1.0]
when = "optimizer = sgd"

["Epochs"]
field = "training.epochs"
range = [1, 5]
integer = true

["Drop"]
field = "regularizer.weight_drop.rate"
choices = [0, 0.5]

["Units"]
field = "backbone.units"
choices = [2, 4]
when = "Kind = lstm"

["Kind"]
field = "backbone"
choices = ["lstm"]

["Experts"]
field = "head.experts"
value = 3
when = "head = mos"

["More experts"]
field = "head.experts"
choices = [[15, 5], [15, 0]]
when = "head = doc"

["Trigger"]
field = "optimizer.trigger"
value = "at_once"
"""


def test_a_field_belongs_to_the_techniques_that_its_conditions_leave(tmp_path):
    path = written(tmp_path, OPEN.replace('"head = mos"', '"head = doc"'))
    with pytest.raises(SpaceError) as error:
        load(path).check()
    assert str(error.value).startswith(
        f"{path}:27: row 'Experts': head doc.experts = 3 is not allowed."
    )
    path = written(tmp_path, OPEN.replace('"head = mos"', '"head = mso"'))
    with pytest.raises(SpaceError, match=r":27: row 'Experts': when: unknown head 'mso'"):
        load(path).check()
    path = written(tmp_path, OPEN.replace("optimizer.trigger", "optimizer.tigger"))
    with pytest.raises(SpaceError, match=r"row 'Trigger': optimizer: unknown field 'tigger'\."):
        load(path).check()
