"""The pages name only files, commands and options that exist, and the map is the real one."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ablate
from ablate import cli, commands
from ablate.errors import ConfigError
from ablate.space.space import load
from docs import tables
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
    "10/12",
    "course.json",
    "difference/ARM",
    "mean/ARM",
    ".ablate/lm/data/own/pydoc",
    ".ablate/searches/rates@small.log",
    "CONFIG.toml",
    "ablate/lm/components/regularizer/gaussian_noise.py",
    "cells.py",
    "clusters.toml",
    "corners.py",
    "digits.py",
    "hf_dropout.py",
    "lit_dropout.py",
    "together.py",
    "train_together.py",
    "gaussian_noise.py",
    "llama.py",
    "site/",
    "site/index.html",
    "logins.json",
    "loop.py",
    "manifest.json",
    "my_space.toml",
    "my_study.py",
    "noise_study.py",
    "outputs/DATE/TIME",
    "report.html",
    "results.csv",
    "source.json",
    "store/trials",
    "test.txt",
    "text.txt",
    "test_gaussian_noise.py",
    "train.py",
    "train.txt",
    "valid.txt",
    "my_training.py",
    "on_each_host.sh",
    "*/metrics.csv",
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


@cache
def options_of(command: str) -> set[str]:
    """Return the options of a command's parser."""
    whole = cli.parser(command)
    choices = next(a for a in whole._actions if isinstance(a, argparse._SubParsersAction)).choices
    return set(choices[command]._option_string_actions)


def wrong_words(piece: str) -> list[str]:
    """Return what does not exist of an `ablate ...` command: the command, or options."""
    match = re.search(r"(?:^|-- )ablate ([a-z].*)", piece, re.DOTALL)
    if match is None:
        return []
    own = match[1].partition(" -- ")[0]  # what follows is for another command, as sbatch
    if own.split()[0] == commands.SHOW and len(own.split()) == 1:
        return []  # `ablate show` names the group
    try:
        name, *_ = commands.found(own.split())
    except ConfigError:
        return own.split()[:2]
    if name not in commands.names():
        return [name]
    options = options_of(name)
    return [word for word in re.findall(r"(?<!\S)--?[a-z][\w-]*", own) if word not in options]


@EACH_PAGE
def test_every_command_exists(page):
    pieces = code(page.read_text(encoding="utf-8"))
    assert [(piece, wrong) for piece in pieces if (wrong := wrong_words(piece))] == []


def test_every_command_has_a_place_in_the_docs():
    page = (places.DOCS / "commands.md").read_text(encoding="utf-8")
    called = map(commands.called, commands.names())
    assert [name for name in called if f"ablate {name}" not in page] == []


@pytest.mark.parametrize("page", sorted(places.DOCS.glob("*.md")), ids=lambda page: page.name)
def test_tables_from_the_code_are_as_the_code_has_them(page):
    text = page.read_text(encoding="utf-8")
    assert text == tables.written(text), "python docs/tables.py"


@pytest.mark.parametrize("name", ablate.__all__)
def test_every_public_name_explains_each_field_or_argument(name):
    thing = inspect.unwrap(getattr(ablate, name))  # `compare` is a package that can be called
    named = {n for n in tables.defaults(thing) if not n.startswith("_")}
    assert set(tables.explained(thing)) == named


def test_the_reference_has_every_public_name():
    page = (places.DOCS / "reference.md").read_text(encoding="utf-8")
    of_results = {"Run", "compare", "load", "query", "report", "run"}
    said = set(re.findall(r"(?:`@?|^## |from the code: )(\w+)", page, re.MULTILINE))
    assert set(ablate.__all__) - of_results <= said


def test_the_space_of_the_reference_can_be_read(tmp_path):
    page = (places.DOCS / "reference.md").read_text(encoding="utf-8")
    (text,) = (block for language, block in BLOCK.findall(page) if language == "toml")
    (tmp_path / "space.toml").write_text(text)
    space = load(tmp_path / "space.toml")
    assert [row.name for row in space.open_rows()] == ["Learning rate", "Epochs", "Warm-up"]


def test_the_map_of_the_design_is_the_real_one():
    page = (places.DOCS / "design.md").read_text(encoding="utf-8")
    (drawn,) = (block for _, block in BLOCK.findall(page) if block.startswith("floor\n"))
    floors: list[set[str]] = []
    for number, name in re.findall(r"^ {2,}(\d*) +(\w+) {2}", drawn, re.MULTILINE):
        if number:
            floors.append(set())
            assert int(number) == len(FLOORS) - len(floors)
        floors[-1].add(name)
    assert floors == [set(floor) for floor in reversed(FLOORS)]
