"""Spelling of invented words: syllables in a drawn order, the same on every machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice, product
from typing import TypeVar

ONSETS = (*"bdfgklmnprstvz", "br", "dr", "gl", "kr", "pl", "st", "tr", "sh")
VOWELS = "aeiou"
CODAS = (*"lnrsmkt", "rn", "lt", "sk", "nd", "mp")

Item = TypeVar("Item")


def shuffled(items: Sequence[Item], stream: random.Random) -> list[Item]:
    """By Fisher and Yates, from `random()` alone: other methods may change between Pythons."""
    mixed = list(items)
    for last in range(len(mixed) - 1, 0, -1):
        other = int(stream.random() * (last + 1))
        mixed[last], mixed[other] = mixed[other], mixed[last]
    return mixed


class Spelling:
    """Hands out words on stems that are all different."""

    def __init__(self, stream: random.Random) -> None:
        syllables = ["".join(letters) for letters in product(ONSETS, VOWELS, CODAS)]
        self._stems = iter(shuffled(syllables, stream))

    def words(self, count: int, ending: str) -> list[str]:
        return [stem + ending for stem in islice(self._stems, count)]
