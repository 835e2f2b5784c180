"""The words of the built-in corpus, and their weights in each context.

Words are invented: syllables in a drawn order, the same on every machine, with an ending. A word's
weight is Zipfian in its list, times a boost under its own topic. After an adjective of some manner,
or as the object of a verb of some kind, one part of the nouns is preferred, drawn for each manner,
kind and class. So these contexts have little in common, and their log probabilities make a matrix
of high rank.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import TypeVar

CLASSES = ("a", "o", "i", "u")  # the vowel in which a noun, its verb and the closing word agree
KINDS = tuple(map(str, range(24)))  # of verbs
MANNERS = tuple(map(str, range(24)))  # of adjectives
NUM_TOPICS = 5

ONSETS = (*"bdfgklmnprstvz", "br", "dr", "gl", "kr", "pl", "st", "tr", "sh")
VOWELS = "aeiou"
CODAS = (*"lnrsmkt", "rn", "lt", "sk", "nd", "mp")

DETERMINERS = ("the", "a", "this", "every")
PREPOSITIONS = ("of", "in", "with", "under", "for", "near", "from", "beside")
NUM_NAMES = 160
NUM_ADVERBS = 80
NUM_NOUNS = 76  # of each class
NUM_CLOSINGS = 14  # of each class
NUM_ADJECTIVES = 3  # of each manner
NUM_VERBS = 5  # of each kind

SEED = 2021
ZIPF_SCALE = 100_000
FLATTENED = 5  # added to ranks, so that the first word of a list does not dominate
HOME_BOOST = 12
NUM_PARTS = 6  # of the nouns; one is preferred
PART_BOOST = 40

Item = TypeVar("Item")
Table = dict[str, int]  # word -> weight
Tables = tuple[Table, ...]  # one for each topic


def build() -> dict[str, Tables]:
    """The words of every category of the built-in grammar."""
    stream = random.Random(SEED)
    stems = iter(shuffled(["".join(s) for s in product(ONSETS, VOWELS, CODAS)], stream))

    def words(count: int, ending: str) -> Tables:
        return _by_topic([stem + ending for stem in islice(stems, count)], stream)

    def selecting(
        category: str, count: int, ending: str, nouns_after: str, values: Sequence[str]
    ) -> Iterator[tuple[str, Tables]]:
        """The words of a category that prefer a part of the nouns, and the nouns after them."""
        for value in values:
            yield f"{category}.{value}", words(count, ending)
            for c, tables in nouns.items():
                yield f"{nouns_after}.{c}.{value}", _prefer_parts(tables, stream)

    # The order of these lines is the order of the draws: another order is another corpus.
    nouns = {c: words(NUM_NOUNS, c) for c in CLASSES}
    return {
        "determiner": (_zipf(DETERMINERS),) * NUM_TOPICS,
        "preposition": (_zipf(PREPOSITIONS),) * NUM_TOPICS,
        "that": ({"that": 1},) * NUM_TOPICS,
        "name": words(NUM_NAMES, "is"),
        **{f"auxiliary.{c}": ({f"h{c}": 1},) * NUM_TOPICS for c in CLASSES},
        "adverb": words(NUM_ADVERBS, "ly"),
        **{f"noun.{c}": tables for c, tables in nouns.items()},
        **{f"close.{c}": words(NUM_CLOSINGS, "s" + c) for c in CLASSES},
        **dict(selecting("adjective", NUM_ADJECTIVES, "en", "noun", MANNERS)),
        **dict(selecting("verb", NUM_VERBS, "er", "object", KINDS)),
    }


def shuffled(items: Sequence[Item], stream: random.Random) -> list[Item]:
    """By Fisher and Yates, from `random()` alone: other methods may change between Pythons."""
    mixed = list(items)
    for last in range(len(mixed) - 1, 0, -1):
        other = int(stream.random() * (last + 1))
        mixed[last], mixed[other] = mixed[other], mixed[last]
    return mixed


def _zipf(words: Sequence[str]) -> Table:
    return {word: ZIPF_SCALE // (rank + FLATTENED) for rank, word in enumerate(words)}


def _by_topic(words: Sequence[str], stream: random.Random) -> Tables:
    """Each word has one topic of its own, and occurs under all."""
    homes = shuffled([rank % NUM_TOPICS for rank in range(len(words))], stream)
    return tuple(
        {
            word: weight * (HOME_BOOST if home == topic else 1)
            for (word, weight), home in zip(_zipf(words).items(), homes, strict=True)
        }
        for topic in range(NUM_TOPICS)
    )


def _prefer_parts(tables: Tables, stream: random.Random) -> Tables:
    """The same words, of which one part is preferred, the same part under every topic."""
    parts = shuffled([rank % NUM_PARTS for rank in range(len(tables[0]))], stream)
    return tuple(
        {
            word: weight * (PART_BOOST if part == 0 else 1)
            for (word, weight), part in zip(table.items(), parts, strict=True)
        }
        for table in tables
    )
