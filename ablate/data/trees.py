"""Trees as a text: each is one line of brackets and words, as a language model reads it.

    (S (NP (NNS dogs)) (VP (VBP bark)))   ->   (S (NP dogs NP) (VP bark VP) S)

Tags, function tags, traces and the root's own bracket are left out (`ablate/scores/trees.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ablate.config.sections import CorpusConfig
from ablate.data.published import SPLITS
from ablate.data.texts import Text
from ablate.errors import CorpusError
from ablate.scores.trees import Tree, cleaned, is_bracket, linearised, read_trees


def check_level(text: Text, config: CorpusConfig) -> None:
    """Refuse to read a corpus of trees as text, and text as trees."""
    if text.level == "any" or (text.level == "tree") == (config.level == "tree"):
        return
    other = "of trees" if text.level == "tree" else "not of trees"
    level = "'tree'" if text.level == "tree" else "'word' or 'character'"
    raise CorpusError(
        f"{config.name} is a corpus {other}, and corpus.level is '{config.level}'. Instead: "
        f"corpus.level = {level}."
    )


def read_splits(text: Text) -> dict[str, list[Tree]]:
    """Read the trees of every split."""
    return {split: read_cleaned(text.lines(split), text.origin(split)) for split in SPLITS}


def read_cleaned(lines: Iterable[str], where: str) -> list[Tree]:
    """Read some trees; an error names the line of a tree that has no words."""
    trees = []
    for number, tree in read_trees(lines, where):
        clean = cleaned(tree)
        if clean is None:
            raise CorpusError(f"{where}, line {number}: the tree that starts here has no words.")
        trees.append(clean)
    return trees


def read_tree(text: str) -> Tree:
    """Read one tree that `str` has written."""
    return next(tree for _, tree in read_trees([text], "the encoded corpus"))


def token_lines(
    text: Text, config: CorpusConfig, trees: Mapping[str, list[Tree]] | None = None
) -> dict[str, Iterable[str]]:
    """Return the lines of every split as `encode` reads them."""
    if config.level != "tree":
        return {split: text.lines(split) for split in SPLITS}
    return {
        split: [" ".join(tokens_of(tree, config.lowercase)) for tree in of_split]
        for split, of_split in (trees or read_splits(text)).items()
    }


def tokens_of(tree: Tree, lowercase: bool) -> list[str]:
    """Return a tree's tokens; only its words are lower-cased."""
    tokens = linearised(tree)
    return [t if is_bracket(t) or not lowercase else t.lower() for t in tokens]
