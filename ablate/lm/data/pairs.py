"""A corpus of pairs as encoder-decoders read it: sentences to read and sentences to write.

    pairs = open_corpus(config.corpus, folder)
    sources, targets = pairs.sentences("train")     token ids mapped from disk

Each side's vocabulary is that of its training sentences, with `<eos>` and `<unk>`; whatever else
occurs in the other splits is `<unk>`. Byte-pair merges are learned on the training sentences too.
Of these, `train_pairs` takes the first N, and `max_length` then leaves out the long ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ablate.config import fields
from ablate.config.identity import digest
from ablate.lm.data import byte_counts, encoded
from ablate.lm.data.encode_pairs import EOS_ID, SIDES, UNKNOWN_ID, encode_pairs, stream_name
from ablate.lm.data.encoded_source import EncodedCorpus, EncodedSource
from ablate.lm.data.pair_texts import PairText, find_pairs
from ablate.lm.data.published import SPLITS
from ablate.lm.data.texts import PAIRS
from ablate.lm.data.tokenize import MARK, sentence_of, tokens_of
from ablate.lm.sections import PairsConfig

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1  # version of encodings: raising it encodes every corpus again and changes all trial ids


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sentences of different lengths in one tensor; the last token of each is its `<eos>`."""

    tokens_N: Tensor
    starts_P1: Tensor  # where each sentence starts, and where the last one ends

    def __len__(self) -> int:
        return len(self.starts_P1) - 1

    def __getitem__(self, index: int) -> Tensor:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no sentence {index} among {len(self)}.")
        start, end = self.starts_P1[index : index + 2].tolist()
        return self.tokens_N[start:end]


@dataclass(frozen=True, eq=False, kw_only=True)
class Pairs(EncodedCorpus):
    """Sources and targets; the vocabularies have `<eos>`, `<unk>`, then words as they appear."""

    best: Mapping[str, float]  # the best possible scores, where they are known
    spelled: Mapping[str, int]  # the bytes and ends of targets' words that are `<unk>`, if known

    eos: int = EOS_ID  # of targets; also what a decoder reads first
    unknown: int = UNKNOWN_ID
    separators: tuple[int, ...] = ()

    @cached_property
    def num_bytes(self) -> Mapping[str, int]:
        """The bytes of the targets that are judged, with single spaces and a line end each; none of
        sentences that were changed before they were read."""
        if not PairsConfig(**self._encoded.facts["options"]).as_written:
            return {}
        targets = {split: self.references(split) for split in SPLITS[1:]}
        return {s: sum(len(line.encode()) + 1 for line in lines) for s, lines in targets.items()}

    def bits_per_byte(self, nll: float, split: str) -> float | None:
        """Return what a byte of a split's targets costs, from the mean nats of a token; None: not
        known."""
        num_bytes, spelled = self.num_bytes.get(split), self.spelled.get(split)
        if num_bytes is None or spelled is None:
            return None
        return byte_counts.bits_per_byte(nll, len(self.splits[split]), num_bytes, spelled)

    @property
    def source_vocabulary(self) -> tuple[str, ...]:
        """The source's tokens by id."""
        return self._encoded.source_vocabulary

    def stream(self, split: str, side: str = "target") -> Tensor:
        """Return one side of a split as one 32-bit tensor over the mapped file, without a copy.

        It must not be written to.
        """
        return encoded.as_tensor(self._encoded.splits[stream_name(split, side)])

    def sentences(self, split: str) -> tuple[Ragged, Ragged]:
        """Return the split's sources and targets."""
        source, target = (self._ragged(split, side) for side in SIDES)
        return source, target

    def _ragged(self, split: str, side: str) -> Ragged:
        import torch

        ends = np.flatnonzero(self._encoded.splits[stream_name(split, side)] == EOS_ID) + 1
        starts = torch.from_numpy(np.concatenate([[0], ends]).astype(np.int64))
        return Ragged(self.stream(split, side), starts)

    def references(self, split: str) -> list[str]:
        """Return the target sentences as they are in the text, with single spaces.

        They are in lower case if the corpus is (`corpus.lowercase`).
        """
        return self._encoded.texts(stream_name(split, "target"))

    def sources(self, split: str) -> list[str]:
        """Return the source sentences as they are in the text, in the same way."""
        return self._encoded.texts(stream_name(split, "source"))

    def text(self, tokens: Iterable[int]) -> str:
        """Convert target ids to a sentence: tokenization is undone, and `<eos>` left out."""
        words = (self.vocabulary[int(token)] for token in tokens if int(token) != EOS_ID)
        return sentence_of(words, units=self._encoded.facts["options"].get("merges") is not None)

    def tokenized(self, sentence: str) -> str:
        """Return a sentence with its punctuation apart, as older papers count BLEU."""
        return " ".join(token.replace(MARK, "") or MARK for token in tokens_of(sentence))


class SentencePairs(EncodedSource[PairsConfig]):
    """Reads pairs of sentences."""

    makes = Pairs

    def text(self) -> PairText:
        """Return the sentences of that name, in these languages."""
        return find_pairs(self.config, self.folder)

    def key(self, text: PairText) -> str:
        """Return the digest of the tokens, from the sentences' hashes and every option."""
        return digest({"pairs": FORMAT, "sources": dict(text.hashes()), **self.options()})

    def options(self) -> dict[str, Any]:
        """Return what differs from the defaults; the hashes stand for corpus and languages."""
        named = ("name", "source", "target")
        return {k: v for k, v in fields.non_defaults(self.config).items() if k not in named}

    def asked(self) -> tuple:
        """Return all settings."""
        return tuple(fields.all_fields(self.config).values())

    def sentence(self) -> int:
        """Return the mean number of tokens of a target sentence to train on."""
        _, target = self.open().sentences("train")
        return len(target.tokens_N) // (len(target.starts_P1) - 1)

    def facts(self, files: encoded.Encoded, seed: int) -> dict[str, Any]:
        """Return the target's tokens, and what is known of both sides."""
        splits = {split: files.splits[stream_name(split, "target")] for split in SPLITS}
        known = {name: files.facts[name] for name in ("num_source_words", "best")}
        # Encodings of older versions lack what the words were that are `<unk>`.
        plain = {split: 0 for split, ids in splits.items() if not (ids == UNKNOWN_ID).any()}
        return {"splits": splits, "spelled": files.facts.get("spelled", plain), **known}

    def columns(self, text: PairText) -> encoded.Columns:
        """Encode both sides."""
        made = encode_pairs({split: text.pairs(split) for split in SPLITS}, self.config)
        source, target = (made.vocabularies[side] for side in SIDES)
        # A translation is a function of its sentence only as long as every word is known.
        own = self.config.name == PAIRS and not made.has_unknown
        facts = {
            "num_words": len(target),
            "num_source_words": len(source),
            "best": {"bleu": 100.0} if own else {},
            "spelled": made.spelled,
        }
        others = [] if source is target else source  # one vocabulary is stored once
        return encoded.Columns(
            made.streams, target, facts, source_vocabulary=others, texts=made.texts
        )
