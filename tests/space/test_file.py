"""Every wrong search-space file is refused, with its line and row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from ablate.errors import SpaceError
from ablate.space import file as space_file
from ablate.space.file import read
from ablate.space.row import Choices
from ablate.space.space import load
from tests.support.spaces import SHIPPED, SMALL, Written, Wrong, text_of, written

KEYS = (
    "field, same_as, when, description, marker, note, source, value, choices, range, scale, "
    "integer, printed"
)
GIVE_ONE = "Give exactly one of value, choices, range, same_as."
RANGE = "[low, high], two numbers, the lower one first"
ROOMS = (
    "corpus, embedding, training, words, backbone, bridge, head, gate, loss, regularizer, "
    "optimizer, schedule, evaluator"
)
SOURCES = {**{name: text_of(name) for name in SHIPPED}, "small": SMALL}


def unknown_keys(file: Written) -> Iterator[Wrong]:
    for row, keys in file.keys.items():
        for key, number in keys.items():
            lines = file.put(number, file.lines[number - 1].replace(key, f"{key}x", 1))
            rest = f"unknown key '{key}x'. Did you mean '{key}'? Expected one of: {KEYS}."
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
    for key, (toml, shown, allowed) in kinds.items():
        for row, number in file.of(key):
            rest = f"{key} = {shown} is not allowed. Expected: {allowed}."
            yield Wrong("wrong type", file.put(number, f"{key} = {toml}"), number, row, rest)


def values_that_are_no_numbers(file: Written) -> Iterator[Wrong]:
    allowed = "text, true or false, a number, or a list of these"
    for row, number in file.of("value"):
        for toml in (("nan", "inf")[number % 2],):
            rest = f"value = {toml} is not allowed. Expected: {allowed}."
            yield Wrong("no number", file.put(number, f"value = {toml}"), number, row, rest)


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
        for toml in ("[2, 1]", "[1, 1]", "[1]", "[]", "[1, 2, 3]", "['a', 'b']", "[true, 2]"):
            shown = toml.replace("true", "True")
            rest = f"range = {shown} is not allowed. Expected: {RANGE}."
            yield Wrong("wrong range", file.put(number, f"range = {toml}"), number, row, rest)
        if "scale" in keys:
            rest = "range = [0, 1] is not allowed. Expected: ends above 0 on a log scale."
            yield Wrong("log of 0", file.put(number, "range = [0, 1]"), number, row, rest)
            for toml in ("lgo", "linaer"):
                meant = {"lgo": "log", "linaer": "linear"}[toml]
                rest = f"unknown scale '{toml}'. Did you mean '{meant}'? "
                rest += "Expected one of: linear, log."
                lines = file.put(keys["scale"], f'scale = "{toml}"')
                yield Wrong("wrong scale", lines, keys["scale"], row, rest)
        if "integer" in keys:
            rest = "range = [0.5, 2] is not allowed. Expected: whole numbers with integer = true."
            yield Wrong("no integer", file.put(number, "range = [0.5, 2]"), number, row, rest)


def wrong_choices(file: Written) -> Iterator[Wrong]:
    for row, number in file.of("choices"):
        rest = "choices = [] is not allowed. Expected: a list of at least one value."
        yield Wrong("no choices", file.put(number, "choices = []"), number, row, rest)
        rest = "choices = [8, 9, 8] is not allowed. Expected: distinct values, but 8 is repeated."
        yield Wrong("choices twice", file.put(number, "choices = [8, 9, 8]"), number, row, rest)


def scales_of_no_range(file: Written) -> Iterator[Wrong]:
    for row in file.headers:
        key, _ = file.value(row)
        if key == "range":
            continue
        for extra in ('scale = "log"', "integer = true"):
            lines, line = file.add(row, extra)
            name = extra.split(" = ")[0]
            rest = f"'{name}' needs 'range', but the row has {key}."
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
    slots = ["words", "backbone", "bridge", "head", "gate", "loss", "optimizer", "schedule"]
    known = ", ".join(dict.fromkeys([*rows, *fields, *slots]))
    for row in rows:
        number = file.value(row)[1]
        target = f"{rows[0]}s"
        lines = file.put(number, f'same_as = "{target}"')
        for extra in ("scale", "integer"):
            if extra in file.keys[row]:
                lines[file.keys[row][extra] - 1] = ""
        hint = f"'{target}'. Did you mean '{rows[0]}'? Expected one of: "
        rest = f"same_as: unknown row {hint}{all_rows}."
        yield Wrong("dangling same_as", lines, number, row, rest)
        rest = (
            f"unknown row or field '{target}'. Did you mean '{rows[0]}'? Expected one of: {known}."
        )
        number = file.keys[row].get("when")
        line = f'when = "{target} = 1"'
        lines, number = (file.put(number, line), number) if number else file.add(row, line)
        yield Wrong("dangling when", lines, number, row, f"when: {rest}")


def duplicate_fields(file: Written) -> Iterator[Wrong]:
    plain = [row for row in file.headers if "when" not in file.keys[row]]
    having = [row for row in plain if "field" in file.keys[row]]
    for first, second in itertools.pairwise(having):
        field = file.lines[file.keys[first]["field"] - 1].split('"')[1]
        lines = file.put(file.keys[second]["field"], f'field = "{field}"')
        rest = (
            f"field '{field}' is already set by row '{first}' (line {file.headers[first]}). "
            "Instead: use one row, or give each of them a 'when'."
        )
        yield Wrong("field twice", lines, file.headers[second], second, rest)


def wrong_fields(file: Written) -> Iterator[Wrong]:
    for row, number in file.of("field"):
        field = file.lines[number - 1].split('"')[1]
        room = field.split(".")[0]
        bad = f"{room}s{field[len(room) :]}"
        rest = (
            f"field '{bad}': unknown slot or section '{room}s'. Did you mean '{room}'? "
            f"Expected one of: {ROOMS}."
        )
        yield Wrong("unknown slot", file.put(number, f'field = "{bad}"'), number, row, rest)
        for bad in ((f"{field}.a.b", f"{field}..x", f"{field}[x]")[number % 3],):
            name = f"{room}.<technique>.<field>"
            form = name if room in ("regularizer", "evaluator") else f"{room}.<field>"
            rest = f"field = '{bad}' is not allowed. Expected: '{form}', or '{form}[0]'."
            yield Wrong("no field", file.put(number, f'field = "{bad}"'), number, row, rest)


def no_toml(file: Written) -> Iterator[Wrong]:
    for row, header in file.headers.items():
        key, number = file.value(row)
        text = file.lines[number - 1]
        lines = file.put(number, text.replace(" = ", " ", 1))
        column = len(key) + 2
        rest = "this is not valid TOML: Expected '=' after a key in a key/value pair "
        rest += f"(column {column})."
        yield Wrong("no TOML", lines, number, row, rest)
        lines = file.put(number, f"{key} = ")
        rest = f"this is not valid TOML: Invalid value (column {column + 2})."
        yield Wrong("no TOML", lines, number, row, rest)
        lines = file.put(number, text, text)
        rest = f"this is not valid TOML: Cannot overwrite a value (column {len(text) + 1})."
        yield Wrong("key twice", lines, number + 1, row, rest)
        lines = [*file.lines, file.lines[header - 1]]
        rest = f"this is not valid TOML: Cannot declare ('{row}',) twice (column {len(lines[-1])})."
        yield Wrong("row twice", lines, len(lines), row, rest)


def misplaced(file: Written) -> Iterator[Wrong]:
    for row, header in file.headers.items():
        key = ("paper", "tables", "task")[header % 3]
        lines, line = file.add(row, f'{key} = ["x"]')
        rest = f"the key '{key}' belongs above the first row."
        yield Wrong("misplaced", lines, line, row, rest)


def wrong_corpora(file: Written) -> Iterator[Wrong]:
    differing = [(row, n) for row, n in file.of("value") if "{" in file.lines[n - 1]]
    if len(differing) < 3:
        return
    for row, number in differing:
        text = file.lines[number - 1]
        rest = "unknown corpus 'ptbb'. Did you mean 'ptb'? Expected one of: ptb, wikitext-2."
        lines = file.put(number, text.replace("ptb", "ptbb"))
        yield Wrong("unknown corpus", lines, number, row, rest)
        rest = "has no value for the corpus 'wikitext-2'. "
        rest += "Expected: a value for each of ptb, wikitext-2."
        yield Wrong("no corpus", file.put(number, "value = { ptb = 1 }"), number, row, rest)
        rest = "value = {} is not allowed. Expected: a value for each corpus."
        yield Wrong("no corpora", file.put(number, "value = {}"), number, row, rest)
        rest = (
            "corpus 'ptb': value = {'a': 1} is not allowed. Expected: text, true or false, a "
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
        rest = f"these rows depend on each other: {row} -> {row}."
        yield Wrong("circle", lines, file.headers[row], row, rest)


KINDS = (
    unknown_keys, wrong_types, values_that_are_no_numbers, no_value, two_values, wrong_ranges,
    wrong_choices, scales_of_no_range, missing_sources, dangling, duplicate_fields, wrong_fields,
    no_toml, misplaced, wrong_corpora, circles,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_wrong_file_is_refused_by_line_and_row(kind, source, tmp_path):
    file = Written(SOURCES[source])
    for wrong in kind(file):
        path = written(tmp_path, "\n".join(wrong.lines) + "\n")
        with pytest.raises(SpaceError) as error:
            load(path)
        where = f"{path}:{wrong.line}: " + (f"row '{wrong.row}': " if wrong.row else "")
        assert str(error.value) == where + wrong.rest, (wrong.kind, wrong.row)


OWN = ' A space over the settings of your own task has task = "..." instead.'
BESIDE = {
    "paper = 7\ntables = []": ":1: paper = 7 is not allowed. Expected: text.",
    'paper = "p"\npapre = "p"\n': ":2: unknown key 'papre'. Did you mean 'paper'? Expected one of: "
    "paper, tables, task, note.",
    'tables = ["T"]\n': ":1: the key 'paper' is required and was not given." + OWN,
    'paper = "p"\n': ":1: the key 'tables' is required and was not given." + OWN,
    'paper = "p"\ntables = "T"\n': ":2: tables = 'T' is not allowed. Expected: list of text.",
    'paper = "p"\ntables = []\nnote = 3\n': ":3: note = 3 is not allowed. Expected: text.",
    'paper = "p"\ntables = []\n': ':1: the file has no rows; one reads ["Row name"].',
    '[paper]\nvalue = 3\n["Row"]\nvalue = 3\n': ":1: paper = {'value': 3} is not allowed. "
    "Expected: not a table.",
    'paper = "p"\ntables = []\n[["Row"]]\nvalue = 3\n': ":1: unknown key 'Row'. "
    "Expected one of: paper, tables, task, note.",
    'paper = "p': ":1: this is not valid TOML: Unterminated string.",
    "": ":1: the key 'paper' is required and was not given." + OWN,
    "\x00": ":1: this is not valid TOML: Invalid statement (column 1).",
}


@pytest.mark.parametrize("text", BESIDE)
def test_what_stands_above_the_rows_is_checked_too(text, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(SpaceError) as error:
        load(path)
    assert str(error.value) == f"{path}{BESIDE[text]}"


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SpaceError) as error:
        load(path)
    assert str(error.value) == f"{path}:1: not a text file in UTF-8 (invalid start byte)."
    with pytest.raises(SpaceError, match=r"unknown search space '/no/such\.toml'"):
        load("/no/such.toml")


def choices(tmp_path, values: str) -> tuple:
    file = tmp_path / "space.toml"
    head = 'paper = "none"\ntables = ["T"]\n["Row"]\nfield = "training.clip"\n'
    file.write_text(f"{head}choices = {values}")
    domain = read(file).rows[0].domain
    assert isinstance(domain, Choices)
    return domain.values


@pytest.mark.parametrize("values", ["[1, true]", '[1, "1"]', "[1, [1]]", "[[1, 2], [2, 1]]"])
def test_choices_that_differ_in_kind_or_order_are_distinct(tmp_path, values):
    assert len(choices(tmp_path, values)) == 2


@pytest.mark.parametrize("values", ["[1, 1.0]", "[true, true]", "[[1], [1.0]]", '["a", "b", "a"]'])
def test_choices_that_are_the_same_are_repeated(tmp_path, values):
    with pytest.raises(SpaceError, match="is repeated"):
        choices(tmp_path, values)


def test_a_hundred_thousand_choices_are_each_looked_at_once(tmp_path, monkeypatch):
    """Not compared with each other: that would be five billion comparisons."""
    seen: list[object] = []
    monkeypatch.setattr(space_file, "key_of", lambda value: seen.append(value) or value)
    values = [*range(1, 100_001)]
    assert choices(tmp_path, str(values)) == tuple(values)
    assert seen == values
