"""`ablate data`: texts, trees and pairs in one list, and each encoded as what it is."""

from __future__ import annotations

import pytest

from ablate.cli import main
from ablate.lm.data.sources import fetched
from ablate.lm.data.texts import BUILT_IN
from tests.support.damage import as_new_process, flip_on_disk


@pytest.fixture
def data(tmp_path, capsys):
    def command(*arguments: str) -> str:
        assert main(["data", *arguments, "--workspace", str(tmp_path)]) == 0
        return capsys.readouterr().out

    return command


def test_every_corpus_is_listed_on_one_line(data):
    first = data("list").partition("\n\n")[0]  # a narrow terminal has the licences below
    first_words = [line.split()[0] for line in first.splitlines()[2:]]
    assert sorted(first_words) == sorted([*BUILT_IN, *fetched()])


def test_trees_are_encoded_as_trees_and_verified_by_their_contents(data, tmp_path, capsys):
    got = data("get", "grammar_trees")
    assert got == (
        "grammar_trees: 131,810 train, 6,707 valid, 9,980 test tokens, 764 words, encoded\n"
    )
    assert data("verify", "grammar_trees").splitlines()[-1].endswith(": as sealed")
    (tokens,) = (tmp_path / "data" / "encoded").glob("*/tokens.arrow")
    flip_on_disk(tokens, 5000)
    as_new_process()
    assert main(["data", "verify", "grammar_trees", "--workspace", str(tmp_path)]) == 3
    assert f"{tokens.parent} is damaged (tokens.arrow has changed)" in capsys.readouterr().err
