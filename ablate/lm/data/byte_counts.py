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

A word that the training text lacks is spelled: beside the token that stands for the word, each of
its bytes and its end cost ln 257 nats. So the probabilities of all texts sum to 1 at most, and no
vocabulary has a word of the test text for nothing. The same holds for characters.

Of pairs of sentences, tokens and bytes are those of the targets: of each one's words with single
spaces between them, and its line end, which `<eos>` stands for. There `<unk>` is the token of every
word that is spelled.

A slice of a split has no file of its own. It counts the bytes that its tokens stand for: a letter's
own, a word's and one for the space or the line end after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ablate.lm.data.encoding import EOS, Tokens
from ablate.lm.data.from_bytes import bytes_of

SPELLED = math.log(257)  # nats of a byte, or of the end, of a word that is spelled
WHOLE = ("byte", "bpe")  # the levels whose tokens restore the file


def bits_per_byte(nll: float, num_tokens: int, num_bytes: int, num_spelled: int = 0) -> float:
    """Return the bits that a byte costs, from the mean nats of a token and what is spelled."""
    return (nll * num_tokens + num_spelled * SPELLED) / (num_bytes * math.log(2))


def spelled(words: Iterable[str]) -> int:
    """Count what it takes to spell words: their bytes, and an end of each."""
    return sum(len(word.encode()) + 1 for word in words)


def unknown_words(tokens: Tokens, train: Tokens, vocabulary: Sequence[str]) -> Iterable[str]:
    """Return the words, each as often as it occurs, that the training text lacks."""
    is_unknown = np.ones(len(vocabulary), bool)
    is_unknown[train] = False
    is_unknown[vocabulary.index(EOS)] = False  # every line has one, whatever its words are
    return (vocabulary[int(token)] for token in tokens[is_unknown[tokens]])


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
