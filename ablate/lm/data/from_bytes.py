"""Tokens that are bytes, or runs of bytes that occur often: they restore a text byte by byte.

    "a cat"    byte    a Ġ c a t
               bpe     a Ġcat      once it is learned

Byte-pair encoding (Sennrich et al. 2016) of bytes, as GPT-2 has it: GPT-2's rule cuts a line into
words with the space before them, numbers, punctuation and spaces. Merges are learned on the
training text alone, and stay within such a piece. The first 256 tokens are the bytes, in order.

No merge crosses the end of a line: its byte is the token `<eos>`, so that at every level one token
ends a line. No merge can have that name, since GPT-2's rule cuts `<eos>` in a text into three.

Learning needs the package `tokenizers`. Reading what is encoded does not.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ablate.errors import CorpusError, MissingDependency, needs
from ablate.lm.data.encoding import EOS, EncodedText, Tokens

NUM_BYTES = 256
NEWLINE = ord("\n")
LINES_AT_ONCE = 10_000
LEAST_COUNT = 2  # a pair that occurs once in the training text is not merged

Raw = Callable[[], Iterable[bytes]]  # each call reads a split's lines from the start


def _letters() -> list[str]:
    """One visible letter for each byte: those of GPT-2, where `Ġ` is a space."""
    own = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(NUM_BYTES, 2 * NUM_BYTES))
    return [chr(byte if byte in own else next(others)) for byte in range(NUM_BYTES)]


LETTERS = _letters()
BYTE_TOKENS = [EOS if byte == NEWLINE else letter for byte, letter in enumerate(LETTERS)]
_BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}


def bytes_of(token: str) -> bytes:
    """Return the bytes that a token stands for."""
    return b"\n" if token == EOS else bytes(_BYTES[letter] for letter in token)


def encode_bytes(texts: Mapping[str, Raw]) -> EncodedText:
    """Return one token for each byte."""
    splits = {
        split: np.frombuffer(b"".join(_read(lines(), split)), np.uint8).astype(np.int32)
        for split, lines in texts.items()
    }
    return EncodedText(BYTE_TOKENS, splits)


def encode_byte_pairs(texts: Mapping[str, Raw], num: int) -> tuple[EncodedText, list[str]]:
    """Learn at most `num` merges on the first split; return all splits' tokens, and the merges."""
    train = next(iter(texts))
    tokenizer = _learned(map(_as_text, _read(texts[train](), train)), num)
    model = json.loads(tokenizer.to_str())["model"]
    in_order = sorted(model["vocab"], key=model["vocab"].__getitem__)
    pieces = [token for token in in_order if len(token) > 1]
    numbers = {token: number for number, token in enumerate([*LETTERS, *pieces])}
    new_ids = np.array([numbers[token] for token in in_order], np.int32)
    splits = {
        split: new_ids[_tokens(_read(lines(), split), tokenizer)] for split, lines in texts.items()
    }
    merges = [" ".join(pair) for pair in model["merges"]]
    return EncodedText([*BYTE_TOKENS, *pieces], splits), merges


def tokens_of(text: str, vocabulary: Sequence[str], merges: Sequence[str]) -> list[int]:
    """Return the tokens of a text, by merges that were learned before."""
    if not merges:
        return [*text.encode()]
    package = _package()
    ids = {token: number for number, token in enumerate([*LETTERS, *vocabulary[NUM_BYTES:]])}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = _cutting(package.models.BPE(vocab=ids, merges=pairs))
    lines = [tokenizer.encode(line).ids for line in text.split("\n")]
    return [*lines[0], *(token for line in lines[1:] for token in (NEWLINE, *line))]


def _learned(lines: Iterator[str], num: int) -> Any:
    package = _package()
    trainer = package.trainers.BpeTrainer(
        vocab_size=NUM_BYTES + num,
        min_frequency=LEAST_COUNT,
        initial_alphabet=LETTERS,
        show_progress=False,
    )
    tokenizer = _cutting(package.models.BPE())
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def _cutting(model: Any) -> Any:
    """Return a tokenizer that cuts lines into pieces by GPT-2's rule."""
    package = _package()
    tokenizer = package.Tokenizer(model)
    tokenizer.pre_tokenizer = package.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=True
    )
    return tokenizer


def _package() -> Any:
    try:
        import tokenizers
    except ImportError:
        message = needs("corpus.level = 'bpe' learns and finds its tokens with", "tokenizers")
        raise MissingDependency(message) from None
    return tokenizers


def _tokens(lines: Iterator[bytes], tokenizer: Any) -> Tokens:
    """Return the tokens of lines, by the tokenizer's numbers."""
    stream, end = array("i"), tokenizer.token_to_id(LETTERS[NEWLINE])
    while chunk := [*islice(lines, LINES_AT_ONCE)]:
        encoded = tokenizer.encode_batch_fast([*map(_as_text, chunk)])
        for line, one in zip(chunk, encoded, strict=True):
            stream.extend(one.ids)
            if line.endswith(b"\n"):  # the last line may have no end
                stream.append(end)
    return np.frombuffer(stream, np.int32)


def _as_text(line: bytes) -> str:
    return line.removesuffix(b"\n").decode("utf-8")


def _read(lines: Iterable[bytes], split: str) -> Iterator[bytes]:
    """Yield the lines; refuse a split of nothing but white space, and what is not UTF-8."""
    empty = True
    for number, line in enumerate(lines, 1):
        try:
            empty = not line.decode("utf-8").strip() and empty
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"line {number} of the {split} split is not UTF-8 text: {error.reason}. Save it as "
                "UTF-8."
            ) from error
        yield line
    if empty:
        raise CorpusError(f"the {split} split is empty. It needs at least one word.")
