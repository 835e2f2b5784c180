"""The built-in corpus of pairs: sentences of the built-in grammar, and a translation of each.

The sentences have 6 to 14 words and no closing word; the words are a part of the grammar's. The
other language is invented as well. A sentence's translation is a function of the sentence, so the
best BLEU is 100:

    a word for a word        the dictionary is drawn once; articles have translations too
    adjective after noun     the vintoen fusti       -> fusti' article adjective
    agreement                article, adjective and the word for `that` take an ending by the gender
                             of their noun, which cannot be seen in the source; a verb, by its
                             subject's: the auxiliary is dropped
    postpositions            under the fusti         -> fusti' article under'
    verb last                in the sentence and in relative clauses, after the adverb
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice, product

from ablate.lm.data.grammar import lexicon
from ablate.lm.data.grammar.built_in import expand
from ablate.lm.data.grammar.generate import check_digest
from ablate.lm.data.grammar.rules import Grammar, Sampler

SIZES = {"train": 20_000, "valid": 1_000, "test": 1_000}  # pairs
SEED = 5
DIGEST = "93b8313f10015e0f018829ee4b132c7710fd5bbe856b55ea2fd7db07edf93697"

RULES = """
S             4  NP.{c} SHORT.{c}
S             2  NP.{c} SHORT.{c} PLACE
S             2  adverb NP.{c} SHORT.{c}
S             1  adverb NP.{c} SHORT.{c} PLACE
S             2  NP.{c} PLACE SHORT.{c}
S             2  NP.{c} that auxiliary.{c} verb OTHER SHORT.{c}
SHORT.{c}     1  auxiliary.{c} verb OTHER
OTHER         1  NP.{c}
NP.{c}        1  determiner noun.{c}
NP.{c}        1  determiner adjective noun.{c}
PLACE         2  preposition OTHER
PLACE         1  preposition name
"""
# how many words of a category of the built-in lexicon: `adjective` stands for all its manners
NUM_WORDS = {"noun": 24, "adjective": 1, "verb": 2, "name": 30, "adverb": 16}
ENDINGS = ("e", "uk", "ast")  # by gender


@cache
def _grammar() -> Grammar:
    words = _lexicon()
    weights = {category: (table,) for category, table in words.items()}
    return Grammar(
        start="S", rules=expand(RULES), lexicon=weights, topics=(1,), stay=1, leave=0, sizes=SIZES
    )


def _lexicon() -> dict[str, dict[str, int]]:
    """Category -> word -> weight; the manners of adjectives and the kinds of verbs are one."""
    words: dict[str, dict[str, int]] = {}
    for category, tables in lexicon.build().items():
        name, *values = category.split(".")
        # Nouns in contexts, and the words that close a line, are not in these sentences.
        if name in ("object", "close") or len(values) > 1:
            continue
        own = name if name in ("adjective", "verb") else category
        most = NUM_WORDS.get(name)
        words.setdefault(own, {}).update(islice(tables[0].items(), most))
    return words


class Translator:
    """Translates sentences of this grammar."""

    def __init__(self, grammar: Grammar) -> None:
        stream = random.Random(SEED)
        self._category = {
            word: category.split(".")[0]
            for category, tables in grammar.lexicon.items()
            for word in tables[0]
        }
        drawn = lexicon.shuffled(_stems(), stream)
        self._stem = dict(zip(self._category, drawn, strict=False))  # more stems than words
        self._gender = {
            word: int(stream.random() * len(ENDINGS))
            for word, category in self._category.items()
            if category == "noun"
        }

    def translate(self, sentence: str) -> str:
        """Return the translation of a sentence of the grammar."""
        return " ".join(self._sentence(_Reader(sentence.split(), self._category)))

    def _sentence(self, words: _Reader) -> Iterator[str]:
        adverb = self._words(words, "adverb")
        subject, gender = self._noun_phrase(words)
        yield from subject
        yield from self._place(words)
        if words.next_is("that"):
            that = self._agreeing(words.take("that"), gender)
            yield from (that, *self._clause(words, gender, []))
        yield from self._clause(words, gender, adverb)

    def _clause(self, words: _Reader, gender: int, adverb: list[str]) -> Iterator[str]:
        """Object, place, adverb, verb."""
        words.take("auxiliary")
        verb = self._agreeing(words.take("verb"), gender)
        yield from self._noun_phrase(words)[0]
        yield from (*self._place(words), *adverb, verb)

    def _noun_phrase(self, words: _Reader) -> tuple[list[str], int]:
        """Noun, article, adjective; and the noun's gender."""
        before = [words.take("determiner")]
        if words.next_is("adjective"):
            before.append(words.take("adjective"))
        noun = words.take("noun")
        gender = self._gender[noun]
        return [self._stem[noun], *(self._agreeing(word, gender) for word in before)], gender

    def _place(self, words: _Reader) -> Iterator[str]:
        if words.next_is("preposition"):
            preposition = words.take("preposition")
            yield from self._words(words, "name") or self._noun_phrase(words)[0]
            yield self._stem[preposition]

    def _words(self, words: _Reader, category: str) -> list[str]:
        return [self._stem[words.take(category)]] if words.next_is(category) else []

    def _agreeing(self, word: str, gender: int) -> str:
        return self._stem[word] + ENDINGS[gender]


class _Reader:
    """The words of a sentence, taken one by one."""

    def __init__(self, words: list[str], categories: Mapping[str, str]) -> None:
        self._left = [(word, categories[word]) for word in reversed(words)]

    def next_is(self, category: str) -> bool:
        return bool(self._left) and self._left[-1][1] == category

    def take(self, category: str) -> str:
        word, actual = self._left.pop()
        if actual != category:
            raise ValueError(f"'{word}' is of the category {actual}, not {category}.")
        return word


def _stems() -> list[str]:
    consonants = "bdfgklmnprstvz"
    return ["".join(letters) for letters in product(consonants, "aiou", consonants, "aiou", "lmnr")]


@cache
def translator() -> Translator:
    """Return a translator for the built-in pairs."""
    return Translator(_grammar())


@cache
def generate() -> dict[str, tuple[list[str], list[str]]]:
    """The sentences of every split, and their translations; checked against the pinned digest."""
    grammar, splits = _grammar(), {}
    for index, (split, size) in enumerate(SIZES.items()):
        sampler = Sampler(grammar, len(SIZES) * SEED + index)
        sources = [" ".join(sampler.line()) for _ in range(size)]
        splits[split] = (sources, [translator().translate(sentence) for sentence in sources])
    lines = {k: [*map("\t".join, zip(*sides, strict=True))] for k, sides in splits.items()}
    check_digest(lines, DIGEST, " of pairs")
    return splits
