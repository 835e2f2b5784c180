"""From lines of text to token numbers.

Words: a token is what `line.split()` gives, and each line ends in `<eos>`; the vocabulary is in
order of first appearance over train, valid and test, as in AWD-LSTM's code.

Characters (Mikolov's convention, 5,017,482 training characters on PTB): the words of a line with
single spaces between them, one token a character; the space is the token " ", and the line's end
is `<eos>`, so that a text is read back by printing `<eos>` as a line break.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ablate.errors import CorpusError

EOS, UNKNOWN = "<eos>", "<unk>"
Tokens = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What decides how text becomes tokens."""

    level: str = "word"
    lowercase: bool = False
    min_count: int = 1


@dataclass(frozen=True)
class EncodedText:
    """Token numbers by split, and the words they stand for."""

    vocabulary: list[str]
    splits: dict[str, Tokens]


def encode(texts: Mapping[str, Iterable[str]], options: Options) -> EncodedText:
    """Encode the splits in the order they are given; the first is the training text."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    splits = {name: _numbered(lines, numbers, options, name) for name, lines in texts.items()}
    encoded = EncodedText(list(numbers), splits)
    return encoded if options.min_count == 1 else _without_rare(encoded, options.min_count)


def _numbered(
    lines: Iterable[str], numbers: Mapping[str, int], options: Options, split: str
) -> Tokens:
    """One split's tokens; new ones are added to `numbers`."""
    number = numbers.__getitem__
    stream = array("i")
    for line in _cased(lines, options.lowercase):
        words = line.split()
        stream.extend(map(number, words if options.level == "word" else " ".join(words)))
        stream.append(number(EOS))
    if len(stream) < 2:
        raise CorpusError(f"the {split} split has no text to predict: it needs a word at least.")
    return np.frombuffer(stream, dtype=np.int32)


def _cased(lines: Iterable[str], lowercase: bool) -> Iterator[str]:
    return map(str.lower, lines) if lowercase else iter(lines)


def _without_rare(encoded: EncodedText, min_count: int) -> EncodedText:
    """Tokens that training has fewer than `min_count` times become `<unk>`."""
    words = encoded.vocabulary
    train = next(iter(encoded.splits.values()))
    counts = np.bincount(train, minlength=len(words))
    numbers: dict[str, int] = {}
    renumbered = np.empty(len(words), np.int32)
    for old, word in enumerate(words):
        kept = word if counts[old] >= min_count or word in (EOS, UNKNOWN) else UNKNOWN
        renumbered[old] = numbers.setdefault(kept, len(numbers))
    splits = {name: renumbered[stream] for name, stream in encoded.splits.items()}
    return EncodedText(list(numbers), splits)
