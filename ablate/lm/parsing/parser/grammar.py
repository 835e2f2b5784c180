"""A probabilistic grammar estimated on trees: relative frequencies of rules, and of words' tags.

What a word that was rarely seen may be is estimated from rare words of its kind: those with the
same shape (capital letters, digits, hyphens) and the same ending.

    score(symbol over word) = ln P(symbol | word) - ln P(symbol)

differs from ln P(word | symbol) by ln P(word), which is the same for all trees of a sentence.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ablate.lm.parsing.parser.symbols import ROOT, Binary, Symbol, binarised
from ablate.lm.parsing.trees import Tree

RARE = 2  # words seen at most as often tell of unknown words
TRUST = 0.5  # how many observations of a word the estimate from its kind is worth
SMALLEST = 1e-3  # less probable tags of a word are left out

Rules = NDArray[np.int32]


class TreeGrammar:
    """Binary rules by number of symbol, sorted by the symbol that they replace."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        nodes = [node for tree in trees for node in _nodes(binarised(tree))]
        self.symbols = sorted({node.symbol for node in nodes})
        number = {symbol: index for index, symbol in enumerate(self.symbols)}
        counts = Counter(
            tuple(number[each.symbol] for each in (node, *node.parts))
            for node in nodes
            if node.parts
        )
        # Sorted by parent: each symbol's rules are a run, whose start is in `first`.
        rules = np.array(sorted(counts), np.int32).reshape(-1, 3)
        self.parent: Rules = rules[:, 0].copy()  # contiguous, as every span reads all of them
        self.left: Rules = rules[:, 1].copy()
        self.right: Rules = rules[:, 2].copy()
        seen = np.array([counts[tuple(rule)] for rule in rules.tolist()], np.float64)
        replaced = np.bincount(self.parent, seen, len(self.symbols))
        self.log_p = np.log(seen / replaced[self.parent])
        self.first = np.searchsorted(self.parent, np.arange(len(self.symbols) + 1))
        self.roots = _root_scores(self.symbols, Counter(binarised(t).symbol for t in trees))
        self._lexicon = _Lexicon(nodes, number)

    def word_scores(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return each symbol's score over each word alone, [words, symbols]."""
        scores = np.full((len(words), len(self.symbols)), -np.inf)
        for row, word in zip(scores, words, strict=True):
            for symbol, score in self._lexicon.scores(word).items():
                row[symbol] = score
        return scores


class _Lexicon:
    """The symbols that a word may have, from the counts of the word and of its kinds."""

    def __init__(self, nodes: Sequence[Binary], number: dict[Symbol, int]) -> None:
        tagged = [(node.word, number[node.symbol]) for node in nodes if node.parts is None]
        times = Counter(word for word, _ in tagged)
        self._by_word = _counters(tagged)
        rare = [(word, symbol) for word, symbol in tagged if times[word] <= RARE]
        # Texts so small that no word is rare: all words are then as rare ones.
        kinds = ((kind, symbol) for word, symbol in rare or tagged for kind in _kinds(word))
        self._by_kind = _counters(kinds)
        self._any = Counter(symbol for _, symbol in rare or tagged)
        self._symbols = Counter(symbol for _, symbol in tagged)
        self._total = len(tagged)

    def scores(self, word: str) -> dict[int, float]:
        # From the most general estimate to the word's own, each the prior of the next.
        probabilities = _shares(self._any)
        for counts in [
            *(self._by_kind.get(kind) for kind in _kinds(word)),
            self._by_word.get(word),
        ]:
            if counts:
                probabilities = _mixed(counts, probabilities)
        return {
            symbol: math.log(p * self._total / self._symbols[symbol])
            for symbol, p in probabilities.items()
            if p >= SMALLEST
        }


def _nodes(binary: Binary) -> Iterator[Binary]:
    yield binary
    for part in binary.parts or ():
        yield from _nodes(part)


def _root_scores(symbols: Sequence[Symbol], counts: Counter[Symbol]) -> NDArray[np.float64]:
    """Return the log probability of each symbol to be that of a whole tree."""
    total = counts.total()
    return np.array(
        [
            math.log(counts[s] / total) if s.parent == ROOT and counts[s] else -np.inf
            for s in symbols
        ]
    )


def _counters(pairs) -> dict[Hashable, Counter[int]]:
    counters: defaultdict[Hashable, Counter[int]] = defaultdict(Counter)
    for key, symbol in pairs:
        counters[key][symbol] += 1
    return dict(counters)


def _kinds(word: str) -> tuple[Hashable, ...]:
    """Return the kinds of a word, from the most general to the most special one."""
    shape = (
        word[:1].isupper(),
        word.isupper(),
        any(letter.isdigit() for letter in word),
        "-" in word,
        any(letter.isalpha() for letter in word),
    )
    # The shape knows capitals already.
    ending = word[-3:].lower()
    return shape, *((shape, ending[-length:]) for length in (1, 2, 3))


def _shares(counts: Counter[int]) -> dict[int, float]:
    total = counts.total()
    return {symbol: count / total for symbol, count in counts.items()}


def _mixed(counts: Counter[int], prior: dict[int, float]) -> dict[int, float]:
    """Return the mean of observed shares and of a prior worth `TRUST` observations."""
    total = counts.total() + TRUST
    return {s: (counts[s] + TRUST * prior.get(s, 0.0)) / total for s in {*counts, *prior}}
