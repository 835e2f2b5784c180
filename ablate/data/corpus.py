"""A corpus as models read it: token numbers mapped from disk, shared by all workers of a host.

    corpus = open_corpus(config.corpus, folder)
    corpus.stream("train")          a torch tensor over the mapped file, nothing copied

What a study needs to plan (`corpus_digest`, `vocabulary_size`) is known without the text where the
corpus is a published one.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ablate.config import CorpusConfig
from ablate.data import encoded
from ablate.data.encoding import EOS, Options, encode
from ablate.data.published import PUBLISHED, SPLITS
from ablate.data.texts import GrammarText, Text, find_text
from ablate.errors import CorpusError
from ablate.identity import digest

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1  # of an encoding: raising it encodes every corpus anew, and makes new trials of all
log = logging.getLogger("ablate.data")
BROUGHT: dict[tuple, str] = {}  # encodings from another host, whose text need not be on this one


@dataclass(frozen=True, eq=False)
class Corpus:
    """Token numbers by split (read-only, mapped), and what is known about them."""

    name: str
    level: str
    digest: str
    num_words: int  # of the vocabulary: words, or characters
    eos: int  # the number of `<eos>`
    splits: Mapping[str, np.ndarray]
    _encoded: encoded.Encoded = field(repr=False)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words by their numbers: in order of first appearance over train, valid, test."""
        return self._vocabulary

    @cached_property
    def _vocabulary(self) -> tuple[str, ...]:
        return tuple(self._encoded.vocabulary())

    @cached_property
    def floor(self) -> Mapping[str, float]:
        """The best possible mean nats a token, by split, where the source of the text is known.

        Over the same tokens as models are judged on: all but the first.
        """
        known = self._encoded.floor().items()
        return {split: -float(np.mean(lp[: len(self.splits[split]) - 1])) for split, lp in known}

    @property
    def encoding(self) -> Path:
        """The folder of the files."""
        return self._encoded.place

    @property
    def num_bytes(self) -> int:
        """The size of the mapped tokens."""
        return sum(tokens.nbytes for tokens in self.splits.values())

    @property
    def separators(self) -> tuple[int, ...]:
        """The letters after which a word begins; none where tokens are words."""
        if self.level == "word":
            return ()
        return tuple(i for i, letter in enumerate(self.vocabulary) if letter in (" ", "_", EOS))

    def counts(self) -> Tensor:
        """How often each word is in the training text, [V]."""
        import torch

        return torch.from_numpy(np.bincount(self.splits["train"], minlength=self.num_words))

    def stream(self, split: str) -> Tensor:
        """The split as a 32-bit tensor over the mapped file: reading it copies nothing.

        It must not be written to. By way of Arrow, since torch warns of read-only numpy arrays.
        """
        import pyarrow as pa
        import torch

        return torch.from_dlpack(encoded.as_arrow(self.splits[split], pa.int32()))

    def text(self, tokens: Iterable[int]) -> str:
        """Token numbers as text again, a line a line."""
        lines: list[list[str]] = [[]]
        for token in tokens:
            word = self.vocabulary[int(token)]
            if word == EOS:
                lines.append([])
            else:
                lines[-1].append(word)
        between = " " if self.level == "word" else ""
        return "\n".join(map(between.join, lines))


def open_corpus(config: CorpusConfig, folder: str | Path) -> Corpus:
    """The corpus, encoded into `folder` if it is not there yet, and mapped into memory."""
    folder = Path(folder)
    key = BROUGHT.get(_asked(config)) or _encoding_digest(find_text(config.name, folder), config)

    def make(damage: str) -> encoded.Columns:
        if damage:
            log.warning("the encoded corpus %s is damaged (%s): encoding it again", key, damage)
        return _encode(find_text(config.name, folder), config, key)

    found = encoded.read_or_make(folder / "encoded" / key, make)
    return Corpus(
        name=config.name,
        level=config.level,
        digest=_digest(key, config),
        num_words=found.facts["num_words"],
        eos=found.facts["eos"],
        splits=_sliced(found.splits, config),
        _encoded=found,
    )


def corpus_digest(config: CorpusConfig, folder: str | Path | None = None) -> str:
    """What identifies the tokens: the text's hashes and every option; never a path.

    A folder of the user's own is hashed (`folder`, if given, remembers for the next time).
    """
    text = find_text(config.name, None if folder is None else Path(folder))
    return _digest(_encoding_digest(text, config), config)


def vocabulary_size(config: CorpusConfig, folder: str | Path) -> int:
    """How many words (or characters) the vocabulary has; without the text where it is pinned."""
    published = PUBLISHED.get(config.name)
    if published is not None and config.min_count == 1:
        known = published.vocabulary.get((config.level, config.lowercase))
        if known is not None:
            return known
    return open_corpus(config, folder).num_words


def _encoding_digest(text: Text, config: CorpusConfig) -> str:
    options = {"level": config.level, "lowercase": config.lowercase, "min_count": config.min_count}
    return digest({"format": FORMAT, "sources": dict(text.hashes()), **options})


def _asked(config: CorpusConfig) -> tuple:
    return config.name, config.level, config.lowercase, config.min_count


def _digest(key: str, config: CorpusConfig) -> str:
    """Slices are cut from one encoding: the vocabulary stays the whole text's."""
    if config.train_tokens is None and config.eval_tokens is None:
        return key
    return digest({"encoding": key, "train": config.train_tokens, "eval": config.eval_tokens})


def _sliced(splits: Mapping[str, np.ndarray], config: CorpusConfig) -> dict[str, np.ndarray]:
    ends = dict.fromkeys(splits, config.eval_tokens) | {"train": config.train_tokens}
    return {split: tokens[: ends[split]] for split, tokens in splits.items()}


def _encode(text: Text, config: CorpusConfig, key: str) -> encoded.Columns:
    options = Options(level=config.level, lowercase=config.lowercase, min_count=config.min_count)
    found = encode({split: text.lines(split) for split in SPLITS}, options)
    if _encoding_digest(text, config) != key:
        raise CorpusError(f"the text of {config.name} was changed while it was read. Try again.")
    facts = {
        "key": key,
        "sources": dict(text.hashes()),
        "options": dataclasses.asdict(options),
        "num_words": len(found.vocabulary),
        "eos": found.vocabulary.index(EOS),
    }
    floor = _floor(text) if options == Options() else {}
    return encoded.Columns(found.splits, found.vocabulary, facts, floor)


def _floor(text: Text) -> dict[str, np.ndarray]:
    """What the grammar itself gives every token; known for words as they stand only."""
    if not isinstance(text, GrammarText):
        return {}
    return {split: np.array(text.log_probabilities(split)) for split in ("valid", "test")}
