"""From lines of text to token ids.

Words: the tokens are those of `line.split()`, and each line ends with `<eos>`; the vocabulary is in
order of first appearance over train, valid and test, as in AWD-LSTM's code.

Characters (Mikolov's convention, 5,017,482 training characters on PTB): the words of a line with
single spaces between them, one token per character; the space is the token " ", and the end of the
line is `<eos>`. Printing `<eos>` as a line break restores the text.

Trees: each line is a linearised tree (`ablate/lm/parsing/corpus.py`), whose brackets are tokens
too, and `kept`: never rare.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ablate.errors import CorpusError
from ablate.lm.sections import CorpusConfig

EOS, UNKNOWN = "<eos>", "<unk>"
Tokens = NDArray[np.int32]


@dataclass(frozen=True)
class EncodedText:
    """Token ids by split, and the words by id."""

    vocabulary: list[str]
    splits: dict[str, Tokens]


def encode(
    texts: Mapping[str, Iterable[str]],
    config: CorpusConfig,
    kept: Callable[[str], bool] = lambda word: False,
) -> EncodedText:
    """Encode the splits in the given order; the first is the training text."""
    ids: defaultdict[str, int] = defaultdict()
    # A new token gets the number of tokens so far, in the order of first appearance.
    ids.default_factory = ids.__len__
    splits = {name: _token_ids(lines, ids, config, name) for name, lines in texts.items()}
    encoded = EncodedText(list(ids), splits)
    return encoded if config.min_count == 1 else _without_rare(encoded, config.min_count, kept)


def _token_ids(
    lines: Iterable[str], ids: Mapping[str, int], config: CorpusConfig, split: str
) -> Tokens:
    """Return one split's token ids, adding new tokens to `ids`."""
    token_id = ids.__getitem__
    stream = array("i")
    lower = config.lowercase and config.level != "tree"  # `tokens_of` has lower-cased trees
    number = 0
    for number, line in enumerate(map(str.lower, lines) if lower else lines, 1):
        words = line.split()
        if words and words[-1] == EOS:
            raise CorpusError(
                f"line {number} of the {split} split ends in {EOS}, which is added to "
                "every line here. Instead: the text without it; a second one could always be "
                "predicted, and would lower the loss."
            )
        stream.extend(map(token_id, " ".join(words) if config.level == "character" else words))
        stream.append(token_id(EOS))
    if len(stream) == number:  # nothing but line ends
        raise CorpusError(f"the {split} split is empty. It needs at least one word.")
    return np.frombuffer(stream, dtype=np.int32)


def _without_rare(encoded: EncodedText, min_count: int, kept: Callable[[str], bool]) -> EncodedText:
    """Replace tokens that occur fewer than `min_count` times in training by `<unk>`."""
    words = encoded.vocabulary
    train = next(iter(encoded.splits.values()))
    counts = np.bincount(train, minlength=len(words))
    special = {EOS, UNKNOWN, *filter(kept, words)}
    ids: dict[str, int] = {}
    new_ids = np.empty(len(words), np.int32)
    for old_id, word in enumerate(words):
        token = word if counts[old_id] >= min_count or word in special else UNKNOWN
        new_ids[old_id] = ids.setdefault(token, len(ids))  # the order of appearance stays
    splits = {name: new_ids[stream] for name, stream in encoded.splits.items()}
    return EncodedText(list(ids), splits)
