"""A probabilistic grammar with hidden topics, and how to draw a line from the grammar.

A line is a leftmost derivation: the stack of symbols still to be said starts as the grammar's
start symbol; a rule replaces a symbol by others, a category says one word. The hidden topic
decides the words of every category. After each line, a new topic may be drawn.

All draws use integer weights and `random.Random(seed).random()`, which Python promises to keep,
so a grammar and a seed give the same text on every machine.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar

EOS = "<eos>"

Item = TypeVar("Item")
Derived = tuple[str, "str | list[Derived]"]  # a category and its word, or a symbol and its parts


@dataclass(frozen=True)
class Rule:
    """One way to replace a symbol, and its weight among all ways."""

    weight: int
    symbols: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Grammar:
    """Rules, words and topics; every weight is a positive integer, and no symbol can be replaced by
    itself before a word is said.

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

    def words(self) -> list[str]:
        """Every word type, `<eos>` excluded, sorted."""
        tables = (table for tables in self.lexicon.values() for table in tables)
        return sorted({word for table in tables for word in table})


class Wheel(Generic[Item]):
    """Items with integer weights; one uniform draw picks one of them."""

    def __init__(self, items: Sequence[Item], weights: Sequence[int]) -> None:
        self.items = tuple(items)
        self.cumulative = tuple(accumulate(weights))

    def draw(self, stream: random.Random) -> Item:
        """Return an item, drawn in proportion to its weight."""
        drawn = int(stream.random() * self.cumulative[-1])
        return self.items[bisect_right(self.cumulative, drawn)]


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
        return list(_words(self.derivation()))

    def derivation(self) -> Derived:
        """The derivation of the next line, with the grammar's symbols and categories."""
        derived = self._derive(self._start)
        if not self._keep.draw(self._stream):
            self._topic = self._topics.draw(self._stream)
        return derived

    def _derive(self, symbol: str) -> Derived:
        if symbol in self._words:
            return symbol, self._words[symbol][self._topic].draw(self._stream)
        return symbol, [*map(self._derive, self._ways[symbol].draw(self._stream))]


def _words(derived: Derived) -> Iterator[str]:
    _, inside = derived
    if isinstance(inside, str):
        yield inside
    else:
        for part in inside:
            yield from _words(part)
