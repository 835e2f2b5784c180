"""A corpus as models read it: token ids mapped from disk, shared by all workers of a host.

    corpus = open_corpus(config.corpus, folder)
    corpus.stream("train")          a torch tensor over the mapped file, without a copy

The functions here take the `corpus` section of any task: a text (`Corpus`), maybe one of trees,
or pairs of sentences (`Pairs`, in `pairs.py`), of which they count the targets.

What is needed to plan a study (`corpus_digest`, `vocabulary_size`) is known without the text if the
corpus is a published one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ablate.config.identity import digest
from ablate.config.sections import CorpusConfig, PairsConfig
from ablate.config.streams import derived_seed
from ablate.data import encoded, pairs
from ablate.data.candidates import candidates_folder
from ablate.data.encoding import EOS, UNKNOWN, encode
from ablate.data.pairs import Pairs
from ablate.data.published import PUBLISHED, SPLITS
from ablate.data.texts import GrammarText, Text, changed, find_text, without_cache
from ablate.data.trees import check_level, read_splits, read_tree, token_lines, tokens_of
from ablate.errors import CorpusError

if TYPE_CHECKING:
    from torch import Tensor

    from ablate.scores.trees import Tree

FORMAT = 1  # version of encodings: raising it re-encodes every corpus and changes all trial ids
log = logging.getLogger("ablate.data")


@dataclass(frozen=True, eq=False)
class Corpus:
    """Token ids by split (read-only, mapped), and facts about them."""

    name: str
    level: str
    digest: str
    num_words: int  # size of the vocabulary, in words or characters
    eos: int  # id of `<eos>`
    splits: Mapping[str, np.ndarray]
    _encoded: encoded.Encoded = field(repr=False)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words by id, in order of first appearance over train, valid, test."""
        return self._encoded.vocabulary

    @cached_property
    def floor(self) -> Mapping[str, float]:
        """The lowest possible mean nats per token, by split, if the source of the text is known.

        It is over the same tokens as evaluation: all except the first.
        """
        known = self._encoded.floor().items()
        return {split: -float(np.mean(lp[: len(self.splits[split]) - 1])) for split, lp in known}

    @property
    def encoding(self) -> Path:
        """The folder of the encoded files."""
        return self._encoded.folder

    @property
    def separators(self) -> tuple[int, ...]:
        """The ids of the characters before a new word; empty if tokens are words."""
        if self.level != "character":
            return ()
        return tuple(i for i, letter in enumerate(self.vocabulary) if letter in (" ", "_", EOS))

    def num_sentences(self, split: str) -> int:
        """Count a split's whole sentences."""
        return int(np.count_nonzero(self.splits[split] == self.eos))

    def trees(self, split: str) -> list[Tree]:
        """Return a split's trees, also those beyond a slice; none if the corpus has no trees."""
        return [read_tree(text) for text in self._encoded.texts(split)]

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
        sources = self._encoded.facts["sources"]
        return candidates_folder(self.name, sources, self.encoding.parent.parent, num)

    def counts(self) -> Tensor:
        """Count each word in the training text, [V]."""
        import torch

        return torch.from_numpy(np.bincount(self.splits["train"], minlength=self.num_words))

    def stream(self, split: str) -> Tensor:
        """Return the split as a 32-bit tensor over the mapped file; it must not be written to."""
        return encoded.as_tensor(self.splits[split])

    def text(self, tokens: Iterable[int]) -> str:
        """Convert token ids back to text, with its line breaks."""
        lines: list[list[str]] = [[]]
        for token in tokens:
            word = self.vocabulary[int(token)]
            if word == EOS:
                lines.append([])
            else:
                lines[-1].append(word)
        between = "" if self.level == "character" else " "
        return "\n".join(map(between.join, lines))


AnyCorpus = Corpus | Pairs


@overload
def open_corpus(config: CorpusConfig, folder: str | Path, seed: int = 0) -> Corpus: ...
@overload
def open_corpus(config: PairsConfig, folder: str | Path, seed: int = 0) -> Pairs: ...
def open_corpus(
    config: CorpusConfig | PairsConfig, folder: str | Path, seed: int = 0
) -> Corpus | Pairs:
    """Open a corpus, encoding it into `folder` first if necessary, and map it into memory.

    `seed` is the trial's, for a random slice.
    """
    folder = Path(folder)
    if isinstance(config, PairsConfig):
        return pairs.open_pairs(config, folder)
    key = encoded.key_from_driver(encoding_options(config), folder)
    key = key or _encoding_digest(find_text(config.name, folder), config)

    def make(damage: str) -> encoded.Columns:
        if damage:
            log.warning("the encoded corpus %s is damaged (%s): encoding it again", key, damage)
        return _encode(without_cache(find_text(config.name, folder)), config, key)

    files = encoded.read_or_make(folder / "encoded" / key, make)
    return Corpus(
        name=config.name,
        level=config.level,
        digest=_digest(key, config),
        num_words=files.facts["num_words"],
        eos=files.facts["eos"],
        splits=_slice(files.splits, config, seed),
        _encoded=files,
    )


def corpus_digest(config: CorpusConfig | PairsConfig, folder: str | Path | None = None) -> str:
    """Return a digest of the tokens, from the text's hashes and every option; never a path.

    A custom folder of text is hashed; the hashes are cached in `folder`, if given.
    """
    if isinstance(config, PairsConfig):
        return pairs.pairs_digest(config, folder)
    text = find_text(config.name, None if folder is None else Path(folder))
    return _digest(_encoding_digest(text, config), config)


def vocabulary_size(config: CorpusConfig | PairsConfig, folder: str | Path) -> int:
    """Return the size of the vocabulary, without the text if the corpus is a published one."""
    if isinstance(config, PairsConfig):
        return pairs.open_pairs(config, folder).num_words
    published = PUBLISHED.get(config.name)
    if published is not None:
        known = published.vocabulary.get((config.level, config.lowercase))
        if config.min_count > 1:
            own = (published.level, False) == (config.level, config.lowercase)
            known = published.frequent.get(config.min_count) if own else None
        if known is not None:
            return known
    return open_corpus(config, folder).num_words


def source_vocabulary_size(config: CorpusConfig | PairsConfig, folder: str | Path) -> int:
    """Return the size of the vocabulary of what is read, if that is another text; else 0."""
    if isinstance(config, PairsConfig):
        return pairs.open_pairs(config, folder).num_source_words
    return 0


def sentence_length(config: CorpusConfig | PairsConfig, folder: str | Path) -> int:
    """Return the mean number of tokens of a target sentence to train on; 0 without pairs."""
    if not isinstance(config, PairsConfig):
        return 0
    _, target = pairs.open_pairs(config, folder).sentences("train")
    return len(target.tokens_N) // (len(target.starts_P1) - 1)


def _encoding_digest(text: Text, config: CorpusConfig) -> str:
    check_level(text, config)
    return digest({"format": FORMAT, "sources": dict(text.hashes()), **_options(config)})


def encoding_options(config: CorpusConfig | PairsConfig) -> tuple:
    """Return the settings that select an encoding."""
    if isinstance(config, PairsConfig):
        return pairs.encoding_options(config)
    return config.name, *_options(config).values()


def _options(config: CorpusConfig) -> dict[str, Any]:
    """Return how the text is tokenized."""
    return {"level": config.level, "lowercase": config.lowercase, "min_count": config.min_count}


def _digest(key: str, config: CorpusConfig) -> str:
    """Return the digest of slices of an encoding, which share the whole text's vocabulary.

    For a random slice it contains only that it is random: the position follows from the seed, which
    is also part of a trial's id.
    """
    drawn = config.train_slice == "random"
    if drawn and config.train_tokens is None:
        raise CorpusError(
            "corpus.train_slice = 'random' needs a length. Instead: also set corpus.train_tokens, "
            "or use train_slice = 'first'."
        )
    if config.train_tokens is None and config.eval_tokens is None:
        return key
    slices = {"train": config.train_tokens, "eval": config.eval_tokens}
    return digest({"encoding": key, **slices, **({"slice": "random"} if drawn else {})})


def _slice(
    splits: Mapping[str, np.ndarray], config: CorpusConfig, seed: int
) -> dict[str, np.ndarray]:
    ends = dict.fromkeys(splits, config.eval_tokens) | {"train": config.train_tokens}
    slices = {split: tokens[: ends[split]] for split, tokens in splits.items()}
    if config.train_slice == "random":
        whole, length = splits["train"], len(slices["train"])
        start = derived_seed(seed, "corpus.train_slice") % (len(whole) - length + 1)
        slices["train"] = whole[start : start + length]
    return slices


def _encode(text: Text, config: CorpusConfig, key: str) -> encoded.Columns:
    trees = read_splits(text) if config.level == "tree" else {}
    tokens = encode(token_lines(text, config, trees), config)
    if _encoding_digest(text, config) != key:
        raise changed(config.name)
    facts = {
        "key": key,
        "sources": dict(text.hashes()),
        "options": _options(config),
        "num_words": len(tokens.vocabulary),
        "eos": tokens.vocabulary.index(EOS),
    }
    judged = {split: [*map(str, trees[split])] for split in ("valid", "test") if trees}
    return encoded.Columns(
        tokens.splits, tokens.vocabulary, facts, floor=_floor(text, config), texts=judged
    )


def _floor(text: Text, config: CorpusConfig) -> dict[str, np.ndarray]:
    """Return the log probability of every token under the built-in grammar, for default options."""
    if not isinstance(text, GrammarText) or _options(config) != _options(CorpusConfig()):
        return {}
    return {split: np.array(text.log_probabilities(split)) for split in ("valid", "test")}


def num_tokens(config: CorpusConfig | PairsConfig, folder: str) -> dict[str, int]:
    """Count the tokens of each split, as a trial would read them."""
    if isinstance(config, PairsConfig):
        opened = pairs.open_pairs(config, folder)
        return {split: len(tokens) for split, tokens in opened.splits.items()}
    published = PUBLISHED.get(config.name)
    if published is None or config.level != published.level:
        corpus = open_corpus(config, folder)
        return {split: len(corpus.splits[split]) for split in SPLITS}
    limits = {"train": config.train_tokens}
    known = published.num_tokens
    return {
        split: min(known[split], limits.get(split, config.eval_tokens) or known[split])
        for split in SPLITS
    }
