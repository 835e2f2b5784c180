"""Candidate trees of sentences, in the format of Charniak's reranking parser.

    2 0              the number of candidates, and the sentence's name
    -21.5            a candidate's log probability
    (S1 (S ...))     and its tree, on one line
    -23.25
    (S1 (S ...))

Blank lines are skipped. The first candidate is the parser's own choice. A tree is read without
function tags, traces and its root's own bracket, and its words must be those of the sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ablate.errors import CorpusError
from ablate.lm.parsing.trees import Tree, cleaned, read_trees

SUFFIX = ".nbest"  # of the files, which are named after splits
JUDGED = ("valid", "test")  # the splits that have candidates


@dataclass(frozen=True)
class Candidate:
    """A tree that a parser found, and its log probability."""

    log_score: float
    tree: Tree


def written(lists: Iterable[Sequence[Candidate]]) -> Iterator[str]:
    """Yield the lines of a file of candidate lists."""
    for number, candidates in enumerate(lists):
        yield f"{len(candidates)} {number}"
        for candidate in candidates:
            yield f"{candidate.log_score:.6f}"
            yield f"(S1 {candidate.tree})"  # with the root that Charniak's parser writes
        yield ""


def read_candidates(
    lines: Iterable[str], sentences: Sequence[Sequence[str]], where: str
) -> list[list[Candidate]]:
    """Read the candidates of these sentences; an error names `where` and the line."""
    numbered = ((number, line.strip()) for number, line in enumerate(lines, 1))
    # One generator for headers and candidates: each takes its lines, and the next goes on there.
    rest = ((number, line) for number, line in numbered if line)
    lists: list[list[Candidate]] = []
    for number, header in rest:
        at = f"{where}, line {number}"
        if len(lists) == len(sentences):
            raise CorpusError(
                f"{at}: here begin the candidates of another sentence, but the split has only "
                f"{len(sentences)} sentences."
            )
        words = sentences[len(lists)]
        size = _size(header, at)
        lists.append([_candidate(rest, words, len(lists), at, where) for _ in range(size)])
    if len(lists) < len(sentences):
        raise CorpusError(
            f"{where} ends after the candidates of {len(lists)} sentences, but the split has "
            f"{len(sentences)}."
        )
    return lists


def _size(header: str, at: str) -> int:
    number, *name = header.split()
    if not name or not number.isdigit() or number == "0":  # there must be one to choose
        raise CorpusError(
            f"{at}: '{_start(header)}' does not begin a list of candidates. Expected: how many "
            "there are, at least 1, and the sentence's name, as in '50 17'."
        )
    return int(number)


def _candidate(
    rest: Iterator[tuple[int, str]], words: Sequence[str], sentence: int, at: str, where: str
) -> Candidate:
    (_, score), (number, text) = _next(rest, at), _next(rest, at)
    here = f"{where}, line {number}"
    # Candidates and references are cleaned alike, or no trees of the two would match.
    tree = cleaned(_one_tree(text, where, number))
    found = [] if tree is None else tree.words
    if tree is None or found != list(words):
        pairs = zip_longest(found, words, fillvalue="nothing")
        given, expected = next(pair for pair in pairs if pair[0] != pair[1])
        raise CorpusError(
            f"{here}: the words of this tree are not those of sentence {sentence + 1} of the "
            f"split: it has '{given}' where the sentence has '{expected}'."
        )
    return Candidate(_log_score(score, here), tree)


def _next(rest: Iterator[tuple[int, str]], at: str) -> tuple[int, str]:
    line = next(rest, None)
    if line is None:
        raise CorpusError(f"{at}: the file ends before this list of candidates is complete.")
    return line


def _one_tree(text: str, where: str, number: int) -> Tree:
    trees = [tree for _, tree in read_trees([text], where, number)]
    if len(trees) != 1:
        raise CorpusError(f"{where}, line {number}: there are {len(trees)} trees. Expected: one.")
    return trees[0]


def _log_score(text: str, here: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise CorpusError(
            f"{here}: before this tree stands '{_start(text)}', which is not a log probability."
        )
    return score


def _start(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."
