"""The pages name only files, commands and options that exist, and the map is the real one."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ablate
from ablate import cli, commands
from ablate.space.file import ROW_KEYS, TOP_KEYS
from ablate.space.space import load
from tests.support import places
from tests.test_imports import FLOORS

PAGES = [
    places.ROOT / "README.md",
    *sorted(page for page in places.DOCS.rglob("*.md") if page.name != "log.md"),
    places.ROOT / "k8s" / "README.md",
    *places.ROOT.glob("CONTRIBUTING.md"),
]
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(places.ROOT)))
# Files of a workspace, of MLflow or of the reader's own, which a page may name.
NOT_HERE = {
    "CONFIG.toml",
    "ablate/components/regularizer/gaussian_noise.py",
    "clusters.toml",
    "digits.py",
    "gaussian_noise.py",
    "logins.json",
    "my_study.py",
    "report.html",
    "store/trials",
    "test.txt",
    "train.txt",
    "valid.txt",
    "weight_drop.py",
}
SUFFIXES = "cpp|csv|h|html|json|md|png|py|sh|sql|tar|toml|txt|yaml"
PATH = re.compile(rf"[\w.*-]+(?:/[\w.*-]+)+/?|[\w*-]+\.(?:{SUFFIXES})|[\w.-]+/")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")


def shell(text: str) -> Iterator[str]:
    """The commands of a page's shell blocks, without comments and prompts."""
    for language, block in BLOCK.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        if language == "sh":
            yield from (line.split("  #")[0] for line in lines)
        elif not language:
            yield from (line.removeprefix("$ ") for line in lines if line.startswith("$ ablate"))


def code(text: str) -> list[str]:
    """Return the code of a page: shell commands, and text between backticks."""
    return [*shell(text), *INLINE.findall(BLOCK.sub("", text))]


def named(page: Path) -> Iterator[str]:
    """Return every path that a page names, in a link or in code."""
    text = page.read_text(encoding="utf-8")
    yield from (link for link, _ in LINK.findall(text) if "://" not in link)
    for piece in code(text):
        for word in re.split(r"[\s'\"(){}=]+", piece):
            if PATH.fullmatch(word) and (page.parent.name != "k8s" or word.startswith("k8s/")):
                yield word  # in k8s, other words with slashes are kubectl's


def exists(path: str, page: Path) -> bool:
    """Return whether a path, a name or a pattern leads to a file from the page or from the top."""
    folders = (page.parent, places.ROOT)
    if "/" not in path:
        return path in file_names() or any(any(folder.glob(path)) for folder in folders)
    return any((folder / path).exists() or any(folder.glob(path)) for folder in folders)


@cache
def file_names() -> set[str]:
    """The names of the files that are part of the project."""
    folders = (places.ROOT / name for name in ("ablate", "benchmarks", "docs", "k8s", "studies"))
    return {path.name for folder in folders for path in folder.rglob("*") if path.is_file()}


@EACH_PAGE
def test_every_path_exists(page):
    wrong = {path for path in named(page) if path not in NOT_HERE and not exists(path, page)}
    assert wrong == set()


def test_a_wrong_path_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("See `ablate/train/loop.py`, [this](nowhere.md) and `gone.py`, in `ablate/`.")
    assert {p for p in named(page) if not exists(p, page)} == {
        "ablate/train/loop.py",
        "nowhere.md",
        "gone.py",
    }


@cache
def options_of(command: str) -> set[str]:
    """Return the options of a command's parser."""
    whole = cli.parser(command)
    choices = next(a for a in whole._actions if isinstance(a, argparse._SubParsersAction)).choices
    return set(choices[command]._option_string_actions)


def wrong_words(piece: str) -> list[str]:
    """Return what does not exist of an `ablate ...` command: the command, or options."""
    match = re.search(r"(?:^|-- )ablate ([a-z]\S*)(.*)", piece, re.DOTALL)
    if match is None:
        return []
    if match[1] not in commands.names():
        return [match[1]]
    options = options_of(match[1])
    return [word for word in re.findall(r"(?<!\S)--?[a-z][\w-]*", match[2]) if word not in options]


@EACH_PAGE
def test_every_command_exists(page):
    pieces = code(page.read_text(encoding="utf-8"))
    assert [(piece, wrong) for piece in pieces if (wrong := wrong_words(piece))] == []


@pytest.mark.parametrize(
    ("piece", "wrong"),
    [
        ("ablate table doc_layer_mix --format csv --effects", []),
        ("ablate tabel doc_layer_mix", ["tabel"]),
        ("kubectl exec head -- ablate study x.py --wrokers 4", ["--wrokers"]),
        ("ablate COMMAND --help", []),
    ],
)
def test_a_wrong_command_is_noticed(piece, wrong):
    assert wrong_words(piece) == wrong


def test_every_command_has_a_place_in_the_docs():
    page = (places.DOCS / "commands.md").read_text(encoding="utf-8")
    assert [name for name in commands.names() if f"ablate {name}" not in page] == []


def rows_of(section: str) -> dict[str, str]:
    """The names in the first column of a section's tables, with the second column."""
    page = (places.DOCS / "reference.md").read_text(encoding="utf-8")
    text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {name: row[1] for row in cells for name in re.findall(r"`(\w+)", row[0])}


WORDS = (ablate.Study, ablate.Arm, ablate.Scale, ablate.Search, ablate.Stage, ablate.Budget)


@pytest.mark.parametrize("word", [*WORDS, ablate.Analyze, ablate.Metric], ids=lambda w: w.__name__)
def test_the_reference_has_every_field_with_its_default(word):
    rows = rows_of(word.__name__)
    assert list(rows) != [] and set(rows) == {field.name for field in dataclasses.fields(word)}
    defaults = {f.name: f.default for f in dataclasses.fields(word)}
    for name, default in defaults.items():
        if isinstance(default, int | float) and not isinstance(default, bool):
            assert float(rows[name]) == default, name
        elif default not in (None, "", (), dataclasses.MISSING):
            assert rows[name] == f"`{default!r}`".replace("'", '"'), name


def test_the_reference_has_every_word_argument_and_key():
    page = (places.DOCS / "reference.md").read_text(encoding="utf-8")
    of_results = {"Run", "load", "run"}
    said = set(re.findall(r"(?:`@?|^## )(\w+)", page, re.MULTILINE))
    assert set(ablate.__all__) - of_results <= said
    functions = (ablate.one_at_a_time, ablate.leave_one_out, ablate.factorial, ablate.path)
    functions += (ablate.fractional_factorial, ablate.smoke, ablate.smaller)
    functions += (ablate.recipe, ablate.task, ablate.task_command)
    for function in functions:
        names = set(inspect.signature(function).parameters) - {"words"}
        said = re.findall(rf"`@?{function.__name__}\(([^`]*)\)`", page)
        beside = {"where"}  # explained after the signature
        assert said and names - beside <= set(re.findall(r"\w+", said[0])), function.__name__
    assert set(rows_of("Tasks")) == set(inspect.signature(ablate.setting).parameters)
    assert set(rows_of("Search spaces")) == {*TOP_KEYS, *ROW_KEYS}
    for word in (ablate.Inherit, ablate.Design):
        assert all(f"`{field.name}`" in page for field in dataclasses.fields(word))


def test_the_space_of_the_reference_can_be_read(tmp_path):
    page = (places.DOCS / "reference.md").read_text(encoding="utf-8")
    (text,) = (block for language, block in BLOCK.findall(page) if language == "toml")
    (tmp_path / "space.toml").write_text(text)
    space = load(tmp_path / "space.toml")
    assert [row.name for row in space.open_rows()] == ["Learning rate", "Epochs", "Warm-up"]


def test_the_map_of_the_design_is_the_real_one():
    page = (places.DOCS / "design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)(?:\.py)?` \|", page, re.MULTILINE)
    real = [(str(n), name) for n, floor in enumerate(FLOORS) for name in floor]
    assert sorted(rows) == sorted(real)
