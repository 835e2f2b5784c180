"""The words of the built-in corpus, and how often each is said where.

A word's weight is Zipfian in its list, times a boost where its topic is at home. After an
adjective of some manner, or as the object of a verb of some kind, a quarter of the nouns is
preferred, drawn for each of them and each class. So these contexts have little in common, and
their log probabilities make a matrix of high rank.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ablate.data.grammar.spelling import Spelling, shuffled

CLASSES = ("a", "o", "i", "u")  # the vowel in which a noun, its verb and the closing word agree
KINDS = tuple(map(str, range(24)))  # of verbs
MANNERS = tuple(map(str, range(24)))  # of adjectives
NUM_TOPICS = 5

DETERMINERS = ("the", "a", "this", "every")
PREPOSITIONS = ("of", "in", "with", "under", "for", "near", "from", "beside")
NUM_NAMES = 160
NUM_ADVERBS = 80
NUM_NOUNS = 76  # of each class
NUM_CLOSINGS = 14  # of each class
NUM_ADJECTIVES = 3  # of each manner
NUM_VERBS = 5  # stems of each kind; each stem has a form for every class

SEED = 2021
ZIPF_SCALE = 100_000
FLATTENED = 5  # added to ranks, so that the first word of a list is not everywhere
HOME_BOOST = 12
NUM_PARTS = 6  # of the nouns; one is preferred
PART_BOOST = 40

Table = dict[str, int]  # word -> weight
Tables = tuple[Table, ...]  # one for each topic


def build() -> dict[str, Tables]:
    """The words of every category of the built-in grammar."""
    stream = random.Random(SEED)
    spelling = Spelling(stream)
    nouns = {c: _by_topic(spelling.words(NUM_NOUNS, c), stream) for c in CLASSES}
    return {
        "determiner": (_zipf(DETERMINERS),) * NUM_TOPICS,
        "preposition": (_zipf(PREPOSITIONS),) * NUM_TOPICS,
        "that": ({"that": 1},) * NUM_TOPICS,
        "name": _by_topic(spelling.words(NUM_NAMES, "is"), stream),
        **{f"auxiliary.{c}": ({f"h{c}": 1},) * NUM_TOPICS for c in CLASSES},
        "adverb": _by_topic(spelling.words(NUM_ADVERBS, "ly"), stream),
        **{f"noun.{c}": tables for c, tables in nouns.items()},
        **{f"close.{c}": _by_topic(spelling.words(NUM_CLOSINGS, "s" + c), stream) for c in CLASSES},
        **_adjectives(nouns, spelling, stream),
        **_verbs(nouns, spelling, stream),
    }


def _adjectives(
    nouns: dict[str, Tables], spelling: Spelling, stream: random.Random
) -> dict[str, Tables]:
    found = {}
    for manner in MANNERS:
        words = spelling.words(NUM_ADJECTIVES, "en")
        found[f"adjective.{manner}"] = _by_topic(words, stream)
        for c, tables in nouns.items():
            found[f"noun.{c}.{manner}"] = _prefer_parts(tables, stream)
    return found


def _verbs(
    nouns: dict[str, Tables], spelling: Spelling, stream: random.Random
) -> dict[str, Tables]:
    found = {}
    for kind in KINDS:
        found[f"verb.{kind}"] = _by_topic(spelling.words(NUM_VERBS, "er"), stream)
        for c, tables in nouns.items():
            found[f"object.{c}.{kind}"] = _prefer_parts(tables, stream)
    return found


def _zipf(words: Sequence[str]) -> Table:
    return {word: ZIPF_SCALE // (rank + FLATTENED) for rank, word in enumerate(words)}


def _by_topic(words: Sequence[str], stream: random.Random) -> Tables:
    """Each word is at home in one topic, and can be said in all."""
    homes = shuffled([rank % NUM_TOPICS for rank in range(len(words))], stream)
    return tuple(
        {
            word: weight * (HOME_BOOST if home == topic else 1)
            for (word, weight), home in zip(_zipf(words).items(), homes, strict=True)
        }
        for topic in range(NUM_TOPICS)
    )


def _prefer_parts(tables: Tables, stream: random.Random) -> Tables:
    """The same words, of which one part is preferred, in every topic the same."""
    parts = shuffled([rank % NUM_PARTS for rank in range(len(tables[0]))], stream)
    return tuple(
        {
            word: weight * (PART_BOOST if part == 0 else 1)
            for (word, weight), part in zip(table.items(), parts, strict=True)
        }
        for table in tables
    )
