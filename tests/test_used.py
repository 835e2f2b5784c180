"""Every public word has a shipped use, and a study file has few of them."""

from __future__ import annotations

import pytest

from tests.used import MOST_FIELDS, WORDS, python_uses, toml_uses, unused

SPACE = """
["Head"]
field = "head"
choices = ["doc", "mos"]

["Share"]
field = "evaluator.cache.share"
range = [0, 1]

["Rate"]
field = "optimizer.schedule"
value = "patience"
"""


def test_every_public_word_has_a_shipped_use():
    assert unused() == []


def test_a_study_file_has_few_fields():
    of_ladders = len(WORDS["Ladder"])
    assert sum(map(len, WORDS.values())) - of_ladders <= MOST_FIELDS


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Scale(corpus='ptb', seeds=3)", ("Scale", "seeds")),
        ("Stage('more', {})", ("Stage", "changes")),
        ("replace(laptop, looks=(3, 5))", ("Search", "looks")),
        ("{'head': 'doc'}", ("head", "doc")),
        ("f'regularizer.l2.{part}'", ("regularizer", "l2")),
        ("def arm(name, backbone): ...\narm('LSTM', 'lstm')", ("backbone", "lstm")),
        ("Search(sampler='random')", ("sampler", "random")),
    ],
)
def test_a_use_is_found(text, word):
    assert word in set(python_uses(text))


@pytest.mark.parametrize("text", ["print(seeds=3)", "Arm('linear')", "x = {'name': 'doc'}"])
def test_nothing_else_is_a_use(text):
    assert not set(python_uses(text))


def test_rows_of_a_space_are_uses():
    expected = {("head", "doc"), ("head", "mos"), ("evaluator", "cache"), ("schedule", "plateau")}
    assert set(toml_uses(SPACE)) == expected
