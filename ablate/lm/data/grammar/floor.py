"""The floor of a generated text: no model can predict it better, on average, than its grammar.

The probability of each token given all tokens before it, by exact filtering (the forward
algorithm, scaled at every token). What is hidden after a token is the topic and the stack of
symbols still to be said; few stacks fit the beginning of a line, so all of them are followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from ablate.errors import CorpusError
from ablate.lm.data.grammar.rules import EOS, Grammar

Stack = tuple[str, ...]
Belief = dict[Stack, NDArray[np.float64]]  # each stack's joint probability with every topic
Openings = dict[str, dict[Stack, float]]  # category that speaks next -> stack after it


class Filter:
    """The belief about topic and stack, updated token by token."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._openings: dict[Stack, Openings] = {}
        self._emissions = _emissions(grammar)
        self._topics = np.array(grammar.topics) / sum(grammar.topics)
        self._stay = grammar.stay / (grammar.stay + grammar.leave)
        self._belief: Belief = {(grammar.start,): self._topics}

    def see(self, word: str) -> float:
        """The probability of the next token, which then becomes known."""
        after = self._after(word)
        probability = float(sum(weights.sum() for weights in after.values()))
        if probability <= 0.0:
            raise CorpusError(f"the grammar cannot say '{word}' here.")
        self._belief = {stack: weights / probability for stack, weights in after.items()}
        if word == EOS:
            self._begin_line()
        return probability

    def _begin_line(self) -> None:
        # A line is over, so nothing is left on the stack: only the topic is uncertain.
        topic = self._stay * self._belief[()] + (1 - self._stay) * self._topics
        self._belief = {(self._grammar.start,): topic}

    def _after(self, word: str) -> Belief:
        after: Belief = {}
        categories = self._emissions.get(word, {})
        for stack, weights in self._belief.items():
            openings = self._open(stack)
            for category in categories:  # in the grammar's order: sums come out the same everywhere
                for rest, probability in openings.get(category, {}).items():
                    joint = probability * weights * categories[category]
                    after[rest] = after[rest] + joint if rest in after else joint
        return after

    def _open(self, stack: Stack) -> Openings:
        """Which category can speak next, what remains then, and how probable each way is."""
        if stack not in self._openings:
            self._openings[stack] = self._expand(stack)
        return self._openings[stack]

    def _expand(self, stack: Stack) -> Openings:
        if not stack:
            return {EOS: {(): 1.0}}
        if stack[0] in self._grammar.lexicon:
            return {stack[0]: {stack[1:]: 1.0}}
        ways = self._grammar.rules[stack[0]]
        total = sum(rule.weight for rule in ways)
        openings: Openings = {}
        for rule in ways:
            for category, remainders in self._open(rule.symbols + stack[1:]).items():
                row = openings.setdefault(category, {})
                for rest, probability in remainders.items():
                    row[rest] = row.get(rest, 0.0) + rule.weight / total * probability
        return openings


def _emissions(grammar: Grammar) -> Mapping[str, Mapping[str, NDArray[np.float64]]]:
    """word -> category -> the word's probability under every topic."""
    emissions = {EOS: {EOS: np.ones(len(grammar.topics))}}
    for category, tables in grammar.lexicon.items():
        for topic, table in enumerate(tables):
            total = sum(table.values())
            for word, weight in table.items():
                row = emissions.setdefault(word, {}).setdefault(category, np.zeros(len(tables)))
                row[topic] = weight / total
    return emissions


def log_probabilities(grammar: Grammar, lines: Sequence[str]) -> list[float]:
    """Natural log probability of every token after the first, given all tokens before it."""
    tokens = [token for line in lines for token in [*line.split(), EOS]]
    belief = Filter(grammar)
    return [log(belief.see(token)) for token in tokens][1:]
