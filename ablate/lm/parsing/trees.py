"""Trees in the bracket format of the Penn Treebank: `(S (NP (NNS dogs)) (VP (VBP bark)))`.

    for line, tree in read_trees(lines, "train.txt"): ...

A tree may stand on one line or on several. `cleaned` leaves out what parsers do not predict:
function tags and indices (`NP-SBJ-1` is an `NP`), traces (`-NONE-`), and the root's own bracket
(`TOP`, `S1`, or without a label).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ablate.errors import CorpusError
from ablate.lm.data.published import SPLITS
from ablate.lm.data.texts import Text

TRACE = "-NONE-"
ROOTS = ("", "TOP", "S1", "ROOT")
_TOKEN = re.compile(r"[()]|[^\s()]+")
_FUNCTION = re.compile(r"(?<=.)[-=].*")  # not of -NONE- and -LRB-, which begin with a hyphen


@dataclass(frozen=True)
class Tree:
    """A phrase with parts, or a tag with its word."""

    label: str
    parts: tuple[Tree, ...] = ()
    word: str | None = None

    def tags(self) -> Iterator[Tree]:
        """Yield the tags, each with its word, from left to right."""
        if self.word is not None:
            yield self
        for part in self.parts:
            yield from part.tags()

    @property
    def words(self) -> list[str]:
        """The sentence."""
        return [tag.word or "" for tag in self.tags()]

    def __str__(self) -> str:
        """Return the tree in bracket format, on one line."""
        inside = [self.word] if self.word is not None else map(str, self.parts)
        return f"({self.label} {' '.join(inside)})"


def read_trees(lines: Iterable[str], where: str, first_line: int = 1) -> Iterator[tuple[int, Tree]]:
    """Yield each tree with the number of its first line; an error names `where` and the line."""
    open_: list[_Open] = []
    start = 0
    for number, line in enumerate(lines, first_line):
        for token in _TOKEN.findall(line):
            if token == "(":
                start = start if open_ else number  # of the outermost bracket
                open_.append(_Open())
                continue
            if not open_:
                what = "a bracket is closed that was not opened" if token == ")" else f"'{token}'"
                raise CorpusError(f"{where}, line {number}: {what} outside of any tree.")
            if token != ")":
                open_[-1].take(token)
                continue
            tree = open_.pop().close(f"{where}, line {number}")
            if not open_:
                yield start, tree
            else:
                open_[-1].parts.append(tree)
    if open_:
        raise CorpusError(
            f"{where}, line {start}: the tree that starts here is not closed: {len(open_)} more "
            "brackets were opened than closed."
        )


class _Open:
    """A bracket that is still open."""

    def __init__(self) -> None:
        self.label: str | None = None
        self.words: list[str] = []
        self.parts: list[Tree] = []

    def take(self, token: str) -> None:
        # The treebank's root has no label: its first token is a bracket.
        if self.label is None and not self.parts:
            self.label = token
        else:
            self.words.append(token)

    def close(self, where: str) -> Tree:
        label = self.label or ""
        # Exactly one of the two: a word, or brackets.
        if len(self.words) + bool(self.parts) != 1:
            raise CorpusError(
                f"{where}: the bracket ({label} ...) has {self._contents()}. Expected: a tag with "
                "one word, as in (NN dog), or a label with further brackets."
            )
        return Tree(label, tuple(self.parts), *self.words)

    def _contents(self) -> str:
        if not self.words:
            return "nothing in it"
        words = " ".join(self.words[:3])
        return f"brackets and the word '{words}'" if self.parts else f"several words ('{words}')"


def cleaned(tree: Tree) -> Tree | None:
    """Return a tree without function tags, traces and its root's own bracket; None if no word is
    left."""
    bare = _bare(tree)
    while bare is not None and bare.label in ROOTS and len(bare.parts) == 1:
        bare = bare.parts[0]
    # A root with several parts cannot be left out, and gets one name for all parsers.
    return replace(bare, label="TOP") if bare is not None and bare.label in ROOTS else bare


def read_splits(text: Text) -> dict[str, list[Tree]]:
    """Read the cleaned trees of every split; an error names the line of one without words."""
    return {split: _read_cleaned(text.lines(split), text.origin(split)) for split in SPLITS}


def _read_cleaned(lines: Iterable[str], where: str) -> list[Tree]:
    trees = []
    for number, tree in read_trees(lines, where):
        clean = cleaned(tree)
        if clean is None:
            raise CorpusError(f"{where}, line {number}: the tree that starts here has no words.")
        trees.append(clean)
    return trees


def _bare(tree: Tree) -> Tree | None:
    if tree.word is not None:
        return None if tree.label == TRACE else tree
    parts = tuple(part for part in map(_bare, tree.parts) if part is not None)
    return Tree(plain_label(tree.label), parts) if parts else None  # only traces were in it


def plain_label(label: str) -> str:
    """Return a label without its function tags and indices."""
    return _FUNCTION.sub("", label)


def linearised(tree: Tree) -> list[str]:
    """Return the tokens of a tree without its tags: `(S (NP dogs NP) (VP bark VP) S)`."""
    if tree.word is not None:
        return [tree.word]
    inside = [token for part in tree.parts for token in linearised(part)]
    return [f"({tree.label}", *inside, f"{tree.label})"]


def is_bracket(token: str) -> bool:
    """Return whether a token of a linearised tree opens or closes a phrase."""
    return token.startswith("(") or token.endswith(")")
