"""The built-in corpus: text drawn from a small grammar, the same everywhere, with a known floor.

It needs no download. `exp(floor_nll(lines))` is the perplexity of the grammar itself, which no
model beats but by luck on few tokens. There are three splits, each one stream of lines in which
the hidden topic is carried over line ends; it starts afresh with each split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from ablate.data.grammar.built_in import BUILT_IN
from ablate.data.grammar.floor import log_probabilities
from ablate.data.grammar.rules import Grammar, Rule, Sampler
from ablate.errors import CorpusError

__all__ = [
    "BUILT_IN",
    "DIGEST",
    "SEED",
    "Grammar",
    "Rule",
    "floor_nll",
    "generate",
    "log_probabilities",
    "text_digest",
]

SEED = 1
DIGEST = "411d1c21cb1feeda636e3d9be18f8389ffe4e00ff9e405e4c1b30ec7cc9d49cc"
MOST_TRAIN_SIZES = 20  # train is given up once it is this many times its size


def generate(grammar: Grammar = BUILT_IN, seed: int = SEED) -> dict[str, list[str]]:
    """The lines of every split; the built-in text is checked against its pinned digest."""
    splits = {}
    for index, (split, size) in enumerate(grammar.sizes.items()):
        sampler = Sampler(grammar, len(grammar.sizes) * seed + index)
        splits[split] = _draw(sampler, size, grammar.words() if split == "train" else [])
    if grammar is BUILT_IN and seed == SEED:
        _check_digest(splits)
    return splits


def _draw(sampler: Sampler, size: int, required: Sequence[str]) -> list[str]:
    """Lines until there are `size` tokens and every required word has been said.

    Going on until then, rather than dropping lines with unknown words, keeps the floor exact.
    """
    lines: list[str] = []
    missing = dict.fromkeys(required)
    num_tokens = 0
    while num_tokens < size or missing:
        words = sampler.line()
        lines.append(" ".join(words))
        num_tokens += len(words) + 1
        for word in words:
            missing.pop(word, None)
        if num_tokens > MOST_TRAIN_SIZES * size:
            raise CorpusError(f"the grammar almost never says {list(missing)}.")
    return lines


def text_digest(splits: Mapping[str, Sequence[str]]) -> str:
    """SHA-256 of the splits' names and lines."""
    text = "".join(
        f"{split}\n" + "".join(f"{line}\n" for line in splits[split]) for split in splits
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _check_digest(splits: Mapping[str, Sequence[str]]) -> None:
    found = text_digest(splits)
    if found != DIGEST:
        raise CorpusError(
            f"the built-in corpus came out with digest {found}, not the pinned {DIGEST}:"
            " its grammar was changed, or this Python draws other random numbers."
        )


def floor_nll(lines: Sequence[str], grammar: Grammar = BUILT_IN) -> float:
    """Mean negative log probability of a token; its exponential is the floor's perplexity."""
    found = log_probabilities(grammar, lines)
    return -sum(found) / len(found)
