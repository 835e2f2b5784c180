"""The list of docstrings to read aloud finds a riddle, and leaves plain sentences alone."""

from __future__ import annotations

from tests.riddles import riddles

SOURCE = '''"""A plain module."""

def told(it):
    """What one asks of those that it
    waits for. It is done."""

def read(path):
    """Return `one` of `those` that `it` names, and what it holds."""
'''


def test_pronouns_are_counted_in_the_first_sentence_without_code():
    assert riddles(SOURCE) == [(3, "What one asks of those that it waits for.")]
    assert [line for line, _ in riddles(SOURCE, 2)] == [3, 7]
