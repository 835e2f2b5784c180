"""Bracket F1: how many phrases two trees of a sentence have in common, as EVALB counts them.

The parameters are those of EVALB's COLLINS.prm, which published results use: the bracket TOP is not
counted, punctuation and traces are left out before positions are counted, ADVP and PRT are one
label, and phrases match by label, first and last word, each at most once. Counts are added up over
a corpus before precision, recall and F1 are computed.

Two differences. COLLINS.prm names TOP alone; here a root called S1 or ROOT, or without a label, is
not counted either, whatever a parser calls its own. And which words are punctuation is decided by
the reference's tags, for both trees: EVALB reports an error, and no number, where the tags of the
other tree disagree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ablate.errors import CorpusError
from ablate.lm.parsing.n_best import Candidate
from ablate.lm.parsing.trees import ROOTS, TRACE, Tree, plain_label

PUNCTUATION = frozenset((",", ":", "``", "''", "."))
ALIKE = {"PRT": "ADVP"}

Bracket = tuple[str, int, int]  # label, first word, word after the last


@dataclass(frozen=True)
class Brackets:
    """How many brackets match, and how many the reference and the other tree have."""

    matched: int = 0
    reference: int = 0
    given: int = 0

    def __add__(self, other: Brackets) -> Brackets:
        return Brackets(
            self.matched + other.matched,
            self.reference + other.reference,
            self.given + other.given,
        )

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, in per cent."""
        both = self.reference + self.given
        return 200 * self.matched / both if both else 0.0


def count_brackets(reference: Tree, given: Tree) -> Brackets:
    """Compare two trees of one sentence."""
    if reference.words != given.words:
        raise CorpusError(
            f"two trees of one sentence differ in their words: '{' '.join(reference.words)}' and "
            f"'{' '.join(given.words)}'."
        )
    kept = [tag.label not in PUNCTUATION and tag.label != TRACE for tag in reference.tags()]
    expected, actual = Counter(_brackets(reference, kept)), Counter(_brackets(given, kept))
    # As multisets: a phrase that a tree has twice matches twice at most.
    return Brackets((expected & actual).total(), expected.total(), actual.total())


def total(counts: Iterable[Brackets]) -> Brackets:
    """Add up the counts of a corpus's sentences."""
    return sum(counts, Brackets())


def first_and_best(
    references: Sequence[Tree], lists: Iterable[Sequence[Candidate]]
) -> tuple[Brackets, Brackets]:
    """Return the counts of every sentence's first candidate, and of its best one."""
    counts = [
        [count_brackets(reference, candidate.tree) for candidate in candidates]
        for reference, candidates in zip(references, lists, strict=True)
    ]
    return total(each[0] for each in counts), total(map(best_of, counts))


def best_of(counts: Iterable[Brackets]) -> Brackets:
    """Return the counts of the best of a sentence's trees, by its own F1."""
    return max(counts, key=lambda brackets: brackets.f1)


def _brackets(tree: Tree, kept: Sequence[bool]) -> list[Bracket]:
    """Return the brackets around the words that are kept, by positions among the kept words."""
    position = [0, *accumulate(map(int, kept))]
    found: list[Bracket] = []

    def visit(node: Tree, start: int) -> int:
        """Note the brackets of a phrase that starts at a word; return the word after the phrase."""
        if node.word is not None:
            return start + 1
        end = start
        for part in node.parts:
            end = visit(part, end)
        label, first, after = plain_label(node.label), position[start], position[end]
        if first < after and label not in ROOTS:  # a phrase of punctuation alone has no words left
            found.append((ALIKE.get(label, label), first, after))
        return end

    visit(tree, 0)
    return found
