"""Every public word has a shipped use, and a study file has few of them."""

from __future__ import annotations

from tests.used import MOST_FIELDS, WORDS, unused


def test_every_public_word_has_a_shipped_use():
    assert unused() == []


def test_a_study_file_has_few_fields():
    of_ladders = len(WORDS["Ladder"])
    assert sum(map(len, WORDS.values())) - of_ladders <= MOST_FIELDS
