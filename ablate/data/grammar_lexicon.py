"""The words of the built-in corpus, and how often each is said where.

Content words are spelt from syllables; a few hundred integers decide who says them when. A word's
weight is a Zipfian one, by its rank in its list, times a boost where the topic likes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

CLASSES = ("a", "o", "i", "u")  # the vowel that nouns, verbs and closing words agree in
KINDS = tuple(str(n) for n in range(8))  # of verbs
MANNERS = tuple(str(n) for n in range(8))  # of adjectives
NUM_TOPICS = 8
NUM_FIELDS = 4  # of nouns: what a verb's kind and the topic choose an object by

NOUNS_PER_CLASS = 44
VERBS_PER_KIND = 9  # stems; each has a form for every class
ADJECTIVES_PER_MANNER = 18
ADVERBS = 80
CLOSING_PER_CLASS = 24

DETERMINERS = "the a this every".split()
PREPOSITIONS = "of in with under for near from beside".split()

BOOST = 4
FIELD_BOOST = 40
SCALE = 100_000

ONSETS = "b d f g k l m n p r s t v z br dr gl kr pl st tr sh".split()
VOWELS = "a e i o u".split()
CODAS = "l n r s m k t rn lt sk nd mp".split()

Table = dict[str, int]


def shuffled(items: Sequence[Item], stream: random.Random) -> list[Item]:
    """By Fisher and Yates, from `random()` alone: other methods may change between Pythons."""
    mixed = list(items)
    for last in range(len(mixed) - 1, 0, -1):
        other = int(stream.random() * (last + 1))
        mixed[last], mixed[other] = mixed[other], mixed[last]
    return mixed


class Spelling:
    """Hands out stems that are all different."""

    def __init__(self, stream: random.Random) -> None:
        syllables = [onset + vowel for onset in ONSETS for vowel in VOWELS]
        short = [onset + vowel + coda for onset in ONSETS for vowel in VOWELS for coda in CODAS]
        long = [first + rest for first in syllables for rest in short]
        self._stems = iter(shuffled(short, stream) + shuffled(long, stream))

    def stems(self, count: int) -> list[str]:
        return [next(self._stems) for _ in range(count)]


def zipf(words: Sequence[str], likes: Callable[[int], int] = lambda rank: 1) -> Table:
    """Weights by rank, from 0, each times how much the word is liked."""
    return {word: SCALE // (rank + 3) * likes(rank) for rank, word in enumerate(words)}


def build() -> dict[str, tuple[Table, ...]]:
    """category -> for each topic -> word -> weight."""
    stream = random.Random(2021)
    spelling = Spelling(stream)
    topics = range(NUM_TOPICS)

    def by_topic(words: Sequence[str]) -> tuple[Table, ...]:
        homes = shuffled([rank % NUM_TOPICS for rank in range(len(words))], stream)
        return tuple(
            zipf(words, lambda rank: BOOST if homes[rank] == topic else 1)  # noqa: B023
            for topic in topics
        )

    everywhere = {
        "determiner": DETERMINERS,
        "preposition": PREPOSITIONS,
        "that": ["that"],
    }
    lexicon = {name: (zipf(words),) * NUM_TOPICS for name, words in everywhere.items()}
    lexicon["adverb"] = by_topic([stem + "ly" for stem in spelling.stems(ADVERBS)])
    for manner in MANNERS:
        lexicon[f"adjective.{manner}"] = by_topic([stem + "en" for stem in spelling.stems(ADJECTIVES_PER_MANNER)])
    for vowel in CLASSES:
        words = [stem + vowel for stem in spelling.stems(NOUNS_PER_CLASS)]
        lexicon[f"noun.{vowel}"] = by_topic(words)
        closing = [stem + "s" + vowel for stem in spelling.stems(CLOSING_PER_CLASS)]
        lexicon[f"close.{vowel}"] = by_topic(closing)
    for kind in KINDS:
        stems = spelling.stems(VERBS_PER_KIND)
        tables = by_topic(stems)
        for vowel in CLASSES:
            lexicon[f"verb.{kind}.{vowel}"] = tuple(
                {f"{stem}er{vowel}": weight for stem, weight in table.items()} for table in tables
            )
            lexicon[f"object.{vowel}.{kind}"] = _preferred(lexicon[f"noun.{vowel}"], stream)
    for manner in MANNERS:
        for vowel in CLASSES:
            lexicon[f"noun.{vowel}.{manner}"] = _preferred(lexicon[f"noun.{vowel}"], stream)
    return lexicon


def _preferred(tables: tuple[Table, ...], stream: random.Random) -> tuple[Table, ...]:
    """The nouns, of which a part drawn for each topic is preferred."""
    found = []
    for table in tables:
        fields = shuffled([rank % NUM_FIELDS for rank in range(len(table))], stream)
        found.append({
            word: weight * (1 if field else FIELD_BOOST)
            for (word, weight), field in zip(table.items(), fields, strict=True)
        })
    return tuple(found)


BUILT_IN_LEXICON = build()
