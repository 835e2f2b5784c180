"""A corpus as models read it: token ids mapped from disk, shared by all workers of a host.

    corpus = open_corpus(config.corpus, folder)
    corpus.stream("train")          a torch tensor over the mapped file, without a copy

What is needed to plan a study (`digest`, `vocabulary`, `sizes`) is known without the text if the
corpus is a published one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ablate.config.data_source import DataConfig, source_of
from ablate.config.identity import digest
from ablate.config.streams import derived_seed
from ablate.errors import CorpusError
from ablate.lm.data import byte_counts, encoded, from_bytes
from ablate.lm.data.encoded_source import EncodedCorpus, EncodedSource
from ablate.lm.data.encoding import EOS, EncodedText, encode
from ablate.lm.data.pairs import Pairs
from ablate.lm.data.published import PUBLISHED, SPLITS
from ablate.lm.data.texts import GrammarText, Text, find_text
from ablate.lm.sections import CorpusConfig, PairsConfig

if TYPE_CHECKING:
    from torch import Tensor

TOKENIZED = ("level", "lowercase", "min_count")  # the settings of how the text is tokenized
SPACES = {"character": " ", "byte": from_bytes.LETTERS[ord(" ")]}  # the space, where it is a token
MERGES = "merges"  # of level bpe: the setting, and the name under which the learned ones are kept
FORMAT = 1  # version of encodings: raising it re-encodes every corpus and changes all trial ids


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus(EncodedCorpus):
    """A text; its words or characters are in order of first appearance over train, valid, test."""

    level: str
    lengths: Mapping[str, int]  # bytes of each split's file; empty: not known

    @cached_property
    def floor(self) -> Mapping[str, float]:
        """The lowest possible mean nats per token, by split, if the source of the text is known.

        It is over the same tokens as evaluation: all except the first.
        """
        known = self._encoded.floor().items()
        return {split: -float(np.mean(lp[: len(self.splits[split]) - 1])) for split, lp in known}

    @property
    def separators(self) -> tuple[int, ...]:
        """The ids of the characters before a new word; empty if tokens are words."""
        if self.level not in SPACES:
            return ()
        separating = (SPACES[self.level], "_", EOS)
        return tuple(i for i, letter in enumerate(self.vocabulary) if letter in separating)

    @cached_property
    def num_bytes(self) -> Mapping[str, int]:
        """The bytes of each split (`byte_counts.py`); none of a text that was changed before it was
        read, or whose file's bytes are not known."""
        if not CorpusConfig(name=self.name, **self._encoded.facts["options"]).as_written:
            return {}
        slices = {s: t for s, t in self.splits.items() if len(t) < len(self._encoded.splits[s])}
        counted = self.splits if self.level in byte_counts.WHOLE else slices
        known = (self.vocabulary, self.level)
        counts = {s: byte_counts.bytes_of_tokens(tokens, *known) for s, tokens in counted.items()}
        return {**self.lengths, **counts}

    @cached_property
    def spelled(self) -> Mapping[str, int]:
        """The bytes and ends, by split, of the words that the training text lacks."""
        if self.level in byte_counts.WHOLE:  # every byte is a token
            return dict.fromkeys(self.splits, 0)
        known = (self.splits["train"], self.vocabulary)
        lacking = {s: byte_counts.unknown_words(t, *known) for s, t in self.splits.items()}
        return {split: byte_counts.spelled(words) for split, words in lacking.items()}

    def bits_per_byte(self, nll: float, split: str) -> float | None:
        """Return what a byte of a split costs, from the mean nats of a token; None: not known."""
        num_bytes = self.num_bytes.get(split)
        if num_bytes is None:
            return None
        return byte_counts.bits_per_byte(
            nll, len(self.splits[split]), num_bytes, self.spelled[split]
        )

    def stream(self, split: str) -> Tensor:
        """Return the split as a 32-bit tensor over the mapped file; it must not be written to."""
        return encoded.as_tensor(self.splits[split])

    def text(self, tokens: Iterable[int]) -> str:
        """Convert token ids back to text, with its line breaks."""
        if self.level in byte_counts.WHOLE:
            return self.restored(tokens).decode(errors="replace")
        lines: list[list[str]] = [[]]
        for token in tokens:
            word = self.vocabulary[int(token)]
            if word == EOS:
                lines.append([])
            else:
                lines[-1].append(word)
        between = "" if self.level == "character" else " "
        return "\n".join(map(between.join, lines))

    def restored(self, tokens: Iterable[int]) -> bytes:
        """Return the bytes that tokens of level `byte` or `bpe` stand for."""
        return b"".join(from_bytes.bytes_of(self.vocabulary[int(token)]) for token in tokens)

    def tokens_of(self, text: str) -> list[int]:
        """Return the tokens of level `byte` or `bpe` that stand for a text."""
        return from_bytes.tokens_of(text, self.vocabulary, self._encoded.texts(MERGES))


AnyCorpus = Corpus | Pairs


# What is opened follows from the section: callers with a known section get its own type.
@overload
def open_corpus(config: CorpusConfig, folder: str | Path, seed: int = 0) -> Corpus: ...
@overload
def open_corpus(config: PairsConfig, folder: str | Path, seed: int = 0) -> Pairs: ...
def open_corpus(config: Any, folder: str | Path, seed: int = 0) -> AnyCorpus:
    """Open a corpus for a model; its text is encoded into `folder` first if necessary.

    `seed` is the trial's, for a random slice.
    """
    return source_of(config, folder).open(seed)


def corpus_digest(config: DataConfig, folder: str | Path | None = None) -> str:
    """Return the digest of what a section describes; `folder` caches hashes, if given."""
    return source_of(config, folder).digest()


def charged(of_text: str) -> str:
    """Return the digest of a text for trials whose bits per byte charge unknown words."""
    return digest({"encoding": of_text, "spelled": True})


class Texts(EncodedSource[CorpusConfig]):
    """Reads one text as words, characters, bytes or pairs of bytes."""

    makes = Corpus

    def text(self) -> Text:
        """Return the text of that name."""
        return find_text(self.config.name, self.folder)

    def key(self, text: Text) -> str:
        """Return the digest of the whole text's encoding."""
        self._check_level(text)
        return digest({"format": FORMAT, "sources": dict(text.hashes()), **self.options()})

    def digest_per_byte(self) -> str:
        """Return another digest if words are spelled: ablate 0.2.0 did not charge them, and its
        trials have the digest of all studies."""
        own = self.digest()
        whole = self.config.level in (*byte_counts.WHOLE, "tree")
        return own if whole or not any(self.open().spelled.values()) else charged(own)

    def options(self) -> dict[str, Any]:
        """Return how the text is tokenized."""
        names = (*TOKENIZED, MERGES) if self.config.level == "bpe" else TOKENIZED
        return {name: getattr(self.config, name) for name in names}

    def asked(self) -> tuple:
        """Return what selects an encoding; slices do not."""
        return self.config.name, *self.options().values()

    def facts(self, files: encoded.Encoded, seed: int) -> dict[str, Any]:
        """Return the text's level and its tokens, sliced as the config says."""
        splits = _slice(files.splits, self.config, seed)
        known = {"eos": files.facts["eos"], "lengths": self._lengths(files)}
        return {"level": self.config.level, "splits": splits, **known}

    def vocabulary(self) -> tuple[int, int]:
        """Return the number of words, without the text if the corpus is a published one."""
        known = self._known_words()
        return super().vocabulary() if known is None else (known, 0)

    def sizes(self) -> dict[str, int]:
        """Count the tokens of each split, without the text if the corpus is a published one."""
        config, published = self.config, PUBLISHED.get(self.config.name)
        if published is None or config.level != published.level or not published.num_tokens:
            return super().sizes()
        # A slice longer than its split is the split.
        limits, known = {"train": config.train_tokens}, published.num_tokens
        return {
            split: min(known[split], limits.get(split, config.eval_tokens) or known[split])
            for split in SPLITS
        }

    def unseen(self) -> dict[str, float]:
        """Count the words that a model cannot have learned; a published text may be missing."""
        if self.config.name in PUBLISHED or self.config.level == "tree":
            return {}
        splits = self.open().splits
        train = np.unique(splits["train"])
        return {s: float(1 - np.isin(splits[s], train).mean()) for s in splits if s != "train"}

    def columns(self, text: Text) -> encoded.Columns:
        """Encode a text."""
        raw = {split: partial(text.raw, split) for split in SPLITS}
        if self.config.level == "byte":
            return self.columns_of(from_bytes.encode_bytes(raw))
        if self.config.level == "bpe":
            tokens, merges = from_bytes.encode_byte_pairs(raw, self.config.merges)
            learned = digest({"vocabulary": tokens.vocabulary, MERGES: merges})
            return self.columns_of(tokens, {"learned": learned}, texts={MERGES: merges})
        tokens = encode({split: text.lines(split) for split in SPLITS}, self.config)
        lengths = {split: sum(map(len, lines())) for split, lines in raw.items()}
        return self.columns_of(tokens, {"bytes": lengths}, floor=self._floor(text))

    def columns_of(
        self, tokens: EncodedText, facts: Mapping[str, Any] | None = None, **further: Any
    ) -> encoded.Columns:
        """Return what to write of an encoded text."""
        words = tokens.vocabulary
        every = {"num_words": len(words), "eos": words.index(EOS), **(facts or {})}
        return encoded.Columns(tokens.splits, words, every, **further)

    def _lengths(self, files: encoded.Encoded) -> Mapping[str, int]:
        """Return the bytes of each split's file. Encodings of older versions lack them, and a
        worker's host lacks the text."""
        if "bytes" in files.facts or self.config.level not in ("word", "character"):
            return files.facts.get("bytes", {})
        with suppress(CorpusError):
            text = self.text()
            return {split: sum(map(len, text.raw(split))) for split in SPLITS}
        return {}

    def _known_words(self) -> int | None:
        published, config = PUBLISHED.get(self.config.name), self.config
        if published is None or config.min_count == 1:
            return published and published.vocabulary.get((config.level, config.lowercase))
        own = (published.level, False) == (config.level, config.lowercase)
        return published.frequent.get(config.min_count) if own else None

    def _check_level(self, text: Text) -> None:
        """Refuse to read a corpus of trees as text, text as trees, and bytes of another text."""
        config = self.config
        if config.level in byte_counts.WHOLE and not config.as_written:
            raise CorpusError(
                "corpus.lowercase and corpus.min_count change the text, and tokens of level "
                f"'{config.level}' stand for its own bytes. Instead: leave both out, or "
                "corpus.level = 'character'."
            )
        if text.level == "any" or (text.level == "tree") == (config.level == "tree"):
            return
        other = "of trees" if text.level == "tree" else "not of trees"
        level = "'tree'" if text.level == "tree" else "'word', 'character', 'byte' or 'bpe'"
        raise CorpusError(
            f"{config.name} is a corpus {other}, and corpus.level is '{config.level}'. Instead: "
            f"corpus.level = {level}."
        )

    def digest_of(self, key: str) -> str:
        """Return the digest of slices of an encoding, which share the whole text's vocabulary.

        For a random slice it contains only that it is random: the position follows from the seed,
        which is also part of a trial's id.
        """
        config = self.config
        if config.level == "bpe":  # what was learned is part of the data
            key = digest({"encoding": key, "learned": self.encoded().facts["learned"]})
        drawn = config.train_slice == "random"
        if drawn and config.train_tokens is None:
            raise CorpusError(
                "corpus.train_slice = 'random' needs a length. Instead: also set "
                "corpus.train_tokens, or use train_slice = 'first'."
            )
        if config.train_tokens is None and config.eval_tokens is None:
            return key
        slices = {"train": config.train_tokens, "eval": config.eval_tokens}
        return digest({"encoding": key, **slices, **({"slice": "random"} if drawn else {})})

    def _floor(self, text: Text) -> dict[str, np.ndarray]:
        """Return the log probability of every token under the grammar, for default options."""
        # The grammar says its own words: lower case, letters or `<unk>` have other probabilities.
        default = CorpusConfig(**self.options()) == CorpusConfig()
        if not (isinstance(text, GrammarText) and default):
            return {}
        return {split: np.array(text.log_probabilities(split)) for split in ("valid", "test")}


def _slice(
    splits: Mapping[str, np.ndarray], config: CorpusConfig, seed: int
) -> dict[str, np.ndarray]:
    ends = dict.fromkeys(splits, config.eval_tokens) | {"train": config.train_tokens}
    slices = {split: tokens[: ends[split]] for split, tokens in splits.items()}
    if config.train_slice == "random":
        whole, length = splits["train"], len(slices["train"])
        # Every start is possible at which the slice still fits.
        start = derived_seed(seed, "corpus.train_slice") % (len(whole) - length + 1)
        slices["train"] = whole[start : start + length]  # as mapped: a slice copies nothing
    return slices
