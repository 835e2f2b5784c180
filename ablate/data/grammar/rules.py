"""What a probabilistic grammar with hidden topics is, and how one line is drawn from it.

A line is a leftmost derivation: the stack of symbols still to be said starts as the grammar's
start symbol; a rule replaces a symbol by others, a category says one word. The hidden topic
decides the words of every category. After each line it is kept, or drawn anew.

All draws use integer weights and `random.Random(seed).random()`, which Python promises to keep,
so a grammar and a seed give the same text on every machine.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar

from ablate.errors import CorpusError

EOS = "<eos>"

Item = TypeVar("Item")


@dataclass(frozen=True)
class Rule:
    """One way to replace a symbol, and its weight among the ways."""

    weight: int
    symbols: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Grammar:
    """Rules, words and topics; every weight is a positive integer.

    After a line the topic is kept with probability stay / (stay + leave) and otherwise drawn from
    `topics`, which therefore is the stationary distribution as well.
    """

    start: str
    rules: Mapping[str, tuple[Rule, ...]]
    lexicon: Mapping[str, tuple[Mapping[str, int], ...]]  # category -> for each topic -> word
    topics: tuple[int, ...]
    stay: int
    leave: int
    sizes: Mapping[str, int]  # split -> the fewest tokens, <eos> included

    def __post_init__(self) -> None:
        _check_weights(self)
        _check_symbols(self)
        vanishing = _vanishing(self)
        for symbol in self.rules:
            _check_progress(self, vanishing, symbol, ())

    def words(self) -> list[str]:
        """Every word type, `<eos>` excluded, sorted."""
        tables = (table for tables in self.lexicon.values() for table in tables)
        return sorted({word for table in tables for word in table})


def _check_weights(grammar: Grammar) -> None:
    rules = [rule.weight for ways in grammar.rules.values() for rule in ways]
    tables = [table for tables in grammar.lexicon.values() for table in tables]
    words = [weight for table in tables for weight in table.values()]
    if min([*rules, *words, *grammar.topics, grammar.stay, grammar.leave]) < 1:
        raise CorpusError("a grammar's weights are positive integers; found one below 1.")
    if not all(tables) or not all(grammar.rules.values()):
        raise CorpusError("a grammar has a symbol without rules, or a category without words.")


def _check_symbols(grammar: Grammar) -> None:
    used = [symbol for ways in grammar.rules.values() for rule in ways for symbol in rule.symbols]
    for symbol in [grammar.start, *used]:
        if (symbol in grammar.rules) == (symbol in grammar.lexicon):
            raise CorpusError(f"symbol '{symbol}' needs either rules or words, and not both.")
    for category, tables in grammar.lexicon.items():
        if len(tables) != len(grammar.topics):
            raise CorpusError(
                f"category '{category}' has words for {len(tables)} topics;"
                f" the grammar has {len(grammar.topics)}."
            )
        if any(word == EOS or word.split() != [word] for table in tables for word in table):
            raise CorpusError(f"category '{category}' holds a word that is no single token.")


def _check_progress(
    grammar: Grammar, vanishing: set[str], symbol: str, above: tuple[str, ...]
) -> None:
    """Refuse a symbol that can come back to itself before a word is said: filtering would hang."""
    if symbol in above:
        raise CorpusError(f"symbol '{symbol}' can be replaced by itself for ever.")
    for rule in grammar.rules.get(symbol, ()):
        for first in rule.symbols:
            _check_progress(grammar, vanishing, first, (*above, symbol))
            if first not in vanishing:
                break


def _vanishing(grammar: Grammar) -> set[str]:
    """The symbols that can be replaced by nothing, in any number of steps."""
    found: set[str] = set()
    while True:
        more = {
            symbol
            for symbol, ways in grammar.rules.items()
            if any(found.issuperset(rule.symbols) for rule in ways)
        }
        if more == found:
            return found
        found = more


class Wheel(Generic[Item]):
    """Items with integer weights; one uniform draw picks one of them."""

    def __init__(self, items: Sequence[Item], weights: Sequence[int]) -> None:
        self.items = tuple(items)
        self.cumulative = tuple(accumulate(weights))

    def draw(self, stream: random.Random) -> Item:
        place = int(stream.random() * self.cumulative[-1])
        return self.items[bisect_right(self.cumulative, place)]


class Sampler:
    """Draws lines; remembers the topic from one line to the next."""

    def __init__(self, grammar: Grammar, seed: int) -> None:
        self._stream = random.Random(seed)
        self._start = grammar.start
        self._ways = {
            symbol: Wheel([rule.symbols for rule in ways], [rule.weight for rule in ways])
            for symbol, ways in grammar.rules.items()
        }
        self._words = {
            category: [Wheel(list(table), list(table.values())) for table in tables]
            for category, tables in grammar.lexicon.items()
        }
        self._topics = Wheel(range(len(grammar.topics)), grammar.topics)
        self._keep = Wheel([True, False], [grammar.stay, grammar.leave])
        self._topic = self._topics.draw(self._stream)

    def line(self) -> list[str]:
        """The words of the next line, without `<eos>`."""
        said: list[str] = []
        stack = [self._start]  # the top is at the end
        while stack:
            symbol = stack.pop()
            if symbol in self._words:
                said.append(self._words[symbol][self._topic].draw(self._stream))
            else:
                stack.extend(reversed(self._ways[symbol].draw(self._stream)))
        if not self._keep.draw(self._stream):
            self._topic = self._topics.draw(self._stream)
        return said
