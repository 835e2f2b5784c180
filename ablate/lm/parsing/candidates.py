"""The lists of candidate trees of a corpus of trees: a parser makes them once, then they are read.

    candidates/<digest>/<k>/valid.nbest     and test.nbest, in the data folder

The parser's grammar is estimated on the training trees, so the lists follow from the text and k.
The digest is that of the text and of the parser's version. `ablate data candidates` makes the
lists; those of the built-in trees, which take seconds, are made when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ablate.config.identity import digest
from ablate.errors import CorpusError
from ablate.lm.data.texts import GRAMMAR_TREES, find_text, writing
from ablate.lm.parsing.n_best import JUDGED, SUFFIX, Candidate, written
from ablate.lm.parsing.parser.grammar import TreeGrammar
from ablate.lm.parsing.parser.k_best import k_best
from ablate.lm.parsing.trees import Tree, read_splits
from ablate.store.files import write_whole

PARSER = 1  # raise it when the parser's lists change

Progress = Callable[[int, int], None]  # sentences so far, of how many


def candidates_folder(name: str, sources: Mapping[str, str], data: Path, num: int) -> Path:
    """Return the folder of the lists of `num` candidates that belong to a text."""
    folder = folder_of_text(sources, data) / str(num)
    if all((folder / f"{split}{SUFFIX}").exists() for split in JUDGED):
        return folder
    if name != GRAMMAR_TREES:  # its lists take minutes: a command makes them, and shows progress
        raise CorpusError(
            f"there are no lists of {num} candidate trees for {name} in {data}. Instead: `ablate "
            f"data candidates {name} --k {num}` makes them, or set evaluator.rerank.candidates to "
            "a folder with lists of your own."
        )
    make_candidates(name, data, num)
    return folder


def folder_of_text(sources: Mapping[str, str], data: Path) -> Path:
    """Return the folder of all lists that belong to a text, whatever their length."""
    return data / "candidates" / digest({"parser": PARSER, "sources": dict(sources)})


def make_candidates(
    name: str, data: Path, num: int, progress: Progress = lambda done, of: None
) -> Path:
    """Parse valid and test, and write the lists; return their folder."""
    text = find_text(name, data)
    trees = read_splits(text)
    folder = folder_of_text(text.hashes(), data) / str(num)
    grammar, done = TreeGrammar(trees["train"]), 0
    lists: dict[str, list[list[Candidate]]] = {split: [] for split in JUDGED}
    for split in JUDGED:
        for tree in trees[split]:
            lists[split].append(_parsed(grammar, tree, num))
            done += 1
            progress(done, sum(len(trees[split]) for split in JUDGED))
    with writing(f"to {folder}"):  # after all are parsed: a folder with both files is complete
        folder.mkdir(parents=True, exist_ok=True)
        for split in JUDGED:
            lines = "\n".join(written(lists[split]))
            write_whole(folder / f"{split}{SUFFIX}", lines.encode())
    return folder


def _parsed(grammar: TreeGrammar, tree: Tree, num: int) -> list[Candidate]:
    """The best trees of a sentence; equally good ones in a fixed order on every machine."""
    found = k_best(grammar, tree.words, num) or [(0.0, _flat(tree))]
    # As a file has them: scores that differ by a rounding error alone must not decide the order.
    rounded = [Candidate(round(score, 6), parsed) for score, parsed in found]
    return sorted(rounded, key=lambda candidate: (-candidate.log_score, str(candidate.tree)))


def _flat(tree: Tree) -> Tree:
    """The only candidate of a sentence that the grammar cannot derive: one phrase."""
    return Tree("S", tuple(Tree("X", word=word) for word in tree.words))
