"""From a sentence to tokens and back: punctuation apart, and words in byte-pair units.

    A man, 3.5 m tall.      ->  A man ￭, 3.5 m tall ￭.
    l'homme (vu)            ->  l ￭'￭ homme (￭ vu ￭)

The mark ￭ says that there was no space, so the sentence can be restored exactly, except that runs
of white space become one space. Numbers stay whole, and so do `#`, which stands for a digit in some
corpora, and `<unk>`. A mark that is itself in the text becomes the token `<￭>`.

Byte-pair encoding is that of Sennrich et al. (2016), by their own `subword-nmt`: a unit that is
continued ends with `@@`.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr
from functools import lru_cache
from typing import Any

from ablate.lm.data.encoding import UNKNOWN

MARK = "￭"
LITERAL = f"<{MARK}>"
CONTINUED = "@@"
_JOINED = re.compile(rf"{LITERAL}| ?{MARK} ?")
_CONTINUED = re.compile(rf"{CONTINUED}(?: |$)")


def tokens_of(sentence: str) -> list[str]:
    """Split a sentence at white space, and punctuation from words."""
    return [token for word in sentence.split() for token in _tokens_of_word(word)]


def sentence_of(tokens: Iterable[str], units: bool = False) -> str:
    """Restore the sentence; `units`: the tokens are byte-pair units."""
    text = " ".join(tokens)
    if units:
        text = _CONTINUED.sub("", text)
    return _JOINED.sub(lambda found: MARK if found[0] == LITERAL else "", text)


@lru_cache(maxsize=1 << 18)  # few words make most of a text
def _tokens_of_word(word: str) -> tuple[str, ...]:
    if word == UNKNOWN or word.isalnum():
        return (word,)
    pieces = _pieces(word)
    last = len(pieces) - 1
    tokens = []
    for index, (piece, is_word) in enumerate(pieces):
        before = MARK if index > 0 and not is_word else ""
        after = MARK if index < last and not is_word and pieces[index + 1][1] else ""
        tokens.append(before + (LITERAL if piece == MARK else piece) + after)
    return tuple(tokens)


def _pieces(word: str) -> list[tuple[str, bool]]:
    """The parts of a word; True with each that is a word itself, False with punctuation."""
    pieces: list[tuple[str, bool]] = []
    for index, letter in enumerate(word):
        if _is_punctuation(letter) and not _in_number(word, index):
            pieces.append((letter, False))
        elif pieces and pieces[-1][1]:
            pieces[-1] = (pieces[-1][0] + letter, True)
        else:
            pieces.append((letter, True))
    return pieces


def _is_punctuation(letter: str) -> bool:
    return letter != "#" and unicodedata.category(letter)[0] in "PS"


def _in_number(word: str, index: int) -> bool:
    around = word[index - 1 : index] + word[index + 1 : index + 2]
    in_digits = len(around) == 2 and all(letter.isdigit() or letter == "#" for letter in around)
    return word[index] in ".,:" and in_digits


def learn_units(counts: Mapping[str, int], merges: int) -> Any:
    """Learn byte-pair merges from the words of the training text; None if no word can be split."""
    from subword_nmt import apply_bpe, learn_bpe

    if all(len(word) == 1 for word in counts):
        return None
    words = io.StringIO("".join(f"{word} {count}\n" for word, count in counts.items()))
    codes = io.StringIO()
    learn_bpe.__dict__["tqdm"] = iter  # no progress bar, for which there is no option
    with redirect_stderr(io.StringIO()):  # subword-nmt reports when it runs out of pairs
        learn_bpe.learn_bpe(words, codes, merges, is_dict=True)
    # The first line is the format's version: without another, nothing was merged.
    return apply_bpe.BPE(codes) if codes.getvalue().count("\n") > 1 else None


def in_units(tokens: list[str], learned: Any) -> list[str]:
    """Split tokens into byte-pair units, except `<unk>`."""
    if UNKNOWN not in tokens:
        return learned.segment_tokens(tokens)
    parts = ([token] if token == UNKNOWN else learned.segment_tokens([token]) for token in tokens)
    return [unit for part in parts for unit in part]
