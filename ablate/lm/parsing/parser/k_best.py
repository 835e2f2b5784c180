"""The k best trees of a sentence under a probabilistic grammar, exactly.

First every symbol's best score over every span (by Cocke, Younger and Kasami's algorithm), then the
k best derivations, computed only where they are needed (Huang & Chiang 2005, algorithm 3): the next
best derivation of a span uses some edge's next best left or right part.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ablate.lm.parsing.parser.grammar import TreeGrammar
from ablate.lm.parsing.parser.symbols import Binary, restored
from ablate.lm.parsing.trees import Tree

Item = tuple[int, int, int]  # first word, word after the last, symbol
Chart = NDArray[np.float64]  # best scores by item


def k_best(grammar: TreeGrammar, words: Sequence[str], k: int) -> list[tuple[float, Tree]]:
    """Return at most k trees with their scores, the best first; none if the grammar has none."""
    chart = _best_scores(grammar, words)
    forest = _Forest(grammar, words, chart, k)
    whole = chart[0, len(words)] + grammar.roots
    tops = [(float(whole[s]), (0, len(words), int(s))) for s in np.flatnonzero(whole > -np.inf)]
    ranked = heapq.merge(
        *(_scored(forest, item, score - float(chart[item])) for score, item in tops),
        key=lambda pair: -pair[0],
    )
    trees = ((score, restored(forest.binary(item, rank))) for score, item, rank in ranked)
    # `range` first: one tree more would be computed otherwise.
    return [tree for _, tree in zip(range(k), trees, strict=False)]


def _scored(forest: _Forest, item: Item, more: float) -> Iterator[tuple[float, Item, int]]:
    """Yield an item's derivations with their scores as whole trees, the best first."""
    rank = 0
    while (score := forest.score(item, rank)) is not None:
        yield score + more, item, rank
        rank += 1


def _best_scores(grammar: TreeGrammar, words: Sequence[str]) -> Chart:
    size = len(words)
    chart = np.full((size + 1, size + 1, len(grammar.symbols)), -np.inf)
    for start, scores in enumerate(grammar.word_scores(words)):
        chart[start, start + 1] = scores
    for length in range(2, size + 1):
        for start in range(size - length + 1):
            _fill(grammar, chart, start, start + length)
    return chart


def _fill(grammar: TreeGrammar, chart: Chart, start: int, end: int) -> None:
    """Set the best scores over a span, from those over its parts."""
    lefts, rights = chart[start, start + 1 : end], chart[start + 1 : end, end]
    # Only rules of which some split has both parts: all others would score -inf.
    possible = (lefts.max(0) > -np.inf)[grammar.left] & (rights.max(0) > -np.inf)[grammar.right]
    rules = np.flatnonzero(possible)
    if not len(rules):
        return
    scores = lefts.take(grammar.left[rules], 1)
    scores += rights.take(grammar.right[rules], 1)
    best = scores.max(0) + grammar.log_p[rules]
    parents = grammar.parent[rules]
    # Rules are sorted by parent, so the best of a parent is the maximum of a run.
    firsts = np.flatnonzero(np.diff(parents, prepend=-1))
    chart[start, end, parents[firsts]] = np.maximum.reduceat(best, firsts)


@dataclass
class _Ranked:
    """An item's best derivations so far, and those that may come next, the best first."""

    edges: list[tuple[float, Item, Item]]
    best: list[tuple[float, int, int, int]] = field(default_factory=list)  # score, edge, ranks
    next: list[tuple[float, int, int, int]] = field(default_factory=list)  # scores are negated
    tried: set[tuple[int, int, int]] = field(default_factory=set)


class _Forest:
    """All derivations of a sentence, ranked on demand."""

    def __init__(self, grammar: TreeGrammar, words: Sequence[str], chart: Chart, k: int) -> None:
        self._grammar, self._words, self._chart, self._k = grammar, words, chart, k
        self._ranked: dict[Item, _Ranked] = {}

    def score(self, item: Item, rank: int) -> float | None:
        """Return the score of an item's derivation of this rank; None if there are fewer."""
        start, end, _ = item
        if rank == 0:
            return float(self._chart[item])
        return None if end - start == 1 else self._rank(item, rank)  # a word has one derivation

    def _rank(self, item: Item, rank: int) -> float | None:
        ranked = self._of(item)
        while len(ranked.best) <= rank:
            if ranked.best:
                _, edge, left, right = ranked.best[-1]
                # The next best of an edge takes the next best of one of its parts.
                self._propose(ranked, edge, left + 1, right)
                self._propose(ranked, edge, left, right + 1)
            if not ranked.next:
                return None
            score, edge, left, right = heapq.heappop(ranked.next)
            ranked.best.append((-score, edge, left, right))
        return ranked.best[rank][0]

    def binary(self, item: Item, rank: int) -> Binary:
        """Return a derivation whose `score` is known."""
        start, end, symbol = item
        known = self._grammar.symbols[symbol]
        if end - start == 1:
            return Binary(known, word=self._words[start])
        self._rank(item, rank)
        ranked = self._of(item)
        _, edge, left, right = ranked.best[rank]
        _, first, second = ranked.edges[edge]
        return Binary(known, (self.binary(first, left), self.binary(second, right)))

    def _of(self, item: Item) -> _Ranked:
        if item not in self._ranked:
            ranked = self._ranked[item] = _Ranked(self._edges(item))
            for edge in range(len(ranked.edges)):
                self._propose(ranked, edge, 0, 0)
        return self._ranked[item]

    def _edges(self, item: Item) -> list[tuple[float, Item, Item]]:
        """Return the k best ways to split an item in two; no other one can be among its k best."""
        start, end, symbol = item
        grammar, chart = self._grammar, self._chart
        rules = slice(grammar.first[symbol], grammar.first[symbol + 1])
        left, right = grammar.left[rules], grammar.right[rules]
        scores = chart[start, start + 1 : end][:, left] + chart[start + 1 : end, end][:, right]
        ways = np.flatnonzero(scores > -np.inf)
        if len(ways) > self._k:
            totals = (scores + grammar.log_p[rules]).ravel()[ways]
            ways = ways[np.argsort(-totals, kind="stable")[: self._k]]  # ties in one order
        splits, ruled = np.unravel_index(ways, scores.shape)
        return [
            (
                float(grammar.log_p[rules][rule]),
                (start, start + 1 + int(split), int(left[rule])),
                (start + 1 + int(split), end, int(right[rule])),
            )
            for split, rule in zip(splits, ruled, strict=True)
        ]

    def _propose(self, ranked: _Ranked, edge: int, left: int, right: int) -> None:
        """Add a derivation to those that may come next, if its parts exist."""
        if (edge, left, right) in ranked.tried:
            return
        ranked.tried.add((edge, left, right))
        log_p, first, second = ranked.edges[edge]
        of_first = self.score(first, left)
        # The second is not ranked where the first has no such derivation.
        of_second = None if of_first is None else self.score(second, right)
        if of_first is not None and of_second is not None:
            heapq.heappush(ranked.next, (-(log_p + of_first + of_second), edge, left, right))
