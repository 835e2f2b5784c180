"""Trees as a text: each is one line of brackets and words, as a language model reads it.

    (S (NP (NNS dogs)) (VP (VBP bark)))   ->   (S (NP dogs NP) (VP bark VP) S)

Tags, function tags, traces and the root's own bracket are left out (`ablate/lm/parsing/trees.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ablate.errors import CorpusError
from ablate.lm.data.corpus import Corpus, Texts
from ablate.lm.data.encoded import Columns
from ablate.lm.data.encoding import UNKNOWN, encode
from ablate.lm.data.texts import Text
from ablate.lm.parsing.candidates import candidates_folder, folder_of_text
from ablate.lm.parsing.n_best import JUDGED, SUFFIX
from ablate.lm.parsing.trees import Tree, is_bracket, linearised, read_splits, read_trees


@dataclass(frozen=True, eq=False, kw_only=True)
class ParsedCorpus(Corpus):
    """The tokens of trees, and the trees that are judged."""

    def trees(self, split: str) -> list[Tree]:
        """Return a split's trees, also those beyond a slice."""
        texts = self._encoded.texts(split)
        # Only trees that were cleaned are stored, so each text is one tree.
        return [next(tree for _, tree in read_trees([t], "the encoded corpus")) for t in texts]

    def num_sentences(self, split: str) -> int:
        """Count a split's whole sentences."""
        return int((self.splits[split] == self.eos).sum())

    def tree_ids(self, tree: Tree) -> list[int]:
        """Return the tokens of a tree, as the text has them; other words are `<unk>`."""
        tokens = tokens_of(tree, self._encoded.facts["options"]["lowercase"])
        unknown = self._ids.get(UNKNOWN)
        ids = [self._ids.get(token, unknown) for token in tokens]
        if None in ids:
            raise CorpusError(
                f"'{tokens[ids.index(None)]}' of a candidate tree is not in the corpus, which has "
                f"no {UNKNOWN}. Instead: a corpus with corpus.min_count above 1."
            )
        return [token for token in ids if token is not None]

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        return {word: number for number, word in enumerate(self.vocabulary)}

    def candidates_folder(self, num: int) -> Path:
        """Return the folder of the lists of `num` candidate trees made for this corpus."""
        # From the encoding and not the text, which a worker's host may lack.
        sources = self._encoded.facts["sources"]
        return candidates_folder(self.name, sources, self.encoding.parent.parent, num)


class Trees(Texts):
    """Reads a text of trees."""

    makes = ParsedCorpus

    def columns(self, text: Text) -> Columns:
        """Encode the trees' tokens, and keep the trees that are judged."""
        trees, lower = read_splits(text), self.config.lowercase
        lines = {
            split: [" ".join(tokens_of(tree, lower)) for tree in of_split]
            for split, of_split in trees.items()
        }
        # Tokens alone do not say the tags, by which bracketing knows punctuation.
        kept = {split: [*map(str, trees[split])] for split in JUDGED}
        return self.columns_of(encode(lines, self.config, kept=is_bracket), texts=kept)

    def files(self) -> list[Path]:
        """Return the lists of candidates that were made for the text, however long they are."""
        lists = folder_of_text(self.text().hashes(), self.folder or Path())
        return sorted(lists.rglob(f"*{SUFFIX}"))


def tokens_of(tree: Tree, lowercase: bool) -> list[str]:
    """Return a tree's tokens; only its words are lower-cased."""
    tokens = linearised(tree)
    return [t if is_bracket(t) or not lowercase else t.lower() for t in tokens]
