"""Bits per byte: what a text costs a model, whatever its tokens are.

    bits per byte = nll * tokens / (bytes * ln 2)

nll is the mean nats of the tokens that are predicted. Tokens and bytes are those of the whole
split, so that the first token, which nothing predicts, is charged the mean: no level has its first
token for nothing, however long it is.

The bytes of a split are those of its file, before anything is made of them: spaces, line ends and
`<unk>` as the file has them, and nothing for what files lack. So all levels divide by one number.
Tokens of level `byte` and `bpe` restore the file. Those of `character` and `word` restore its words
with single spaces between them: where the file has more (Penn Treebank has a space at both ends of
a line), it is counted, and costs nothing.

Of pairs of sentences, tokens and bytes are those of the targets: of each one's words with single
spaces between them, and its line end, which `<eos>` stands for. A word that the vocabulary lacks
costs its `<unk>`, and then ln 257 nats for each of its bytes and for its end, all of which are
alike. So the probabilities of all sentences sum to 1 at most, whatever the vocabulary is.

A slice of a split has no file of its own. It counts the bytes that its tokens stand for: a letter's
own, a word's and one for the space or the line end after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ablate.data.encoding import EOS, Tokens
from ablate.data.from_bytes import bytes_of

SPELLED = math.log(257)  # nats of a byte, or of the end, of a word that is spelled
WHOLE = ("byte", "bpe")  # the levels whose tokens restore the file


def bits_per_byte(nll: float, num_tokens: int, num_bytes: int) -> float:
    """Return the bits that a byte costs, from the mean nats of a token."""
    return nll * num_tokens / (num_bytes * math.log(2))


def bytes_of_tokens(tokens: Tokens, vocabulary: Sequence[str], level: str) -> int:
    """Count the bytes that tokens stand for."""
    lengths = np.array([_length(token, level) for token in vocabulary], np.int64)
    counts = np.bincount(tokens, minlength=len(vocabulary))
    return int(counts @ lengths) + (_empty_lines(tokens, vocabulary) if level == "word" else 0)


def _length(token: str, level: str) -> int:
    if level in WHOLE:
        return len(bytes_of(token))
    if level == "word":  # with the space or the line end after it
        return 0 if token == EOS else len(token.encode()) + 1
    return 1 if token == EOS else len(token.encode())


def _empty_lines(tokens: Tokens, vocabulary: Sequence[str]) -> int:
    """Count the line ends that no word comes before."""
    ends = tokens == vocabulary.index(EOS)
    return int(ends[:1].sum() + (ends[1:] & ends[:-1]).sum())
