"""The built-in corpus: text drawn from a small grammar, the same everywhere, with a known floor.

It needs no download. `floor.py` computes the perplexity of the grammar itself, which no model beats
except by luck on few tokens. There are three splits, each one stream of lines in which the hidden
topic is carried over line ends; every split draws its own first topic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from ablate.errors import CorpusError
from ablate.lm.data.grammar.built_in import BUILT_IN
from ablate.lm.data.grammar.rules import Grammar, Sampler

SEED = 1
DIGEST = "411d1c21cb1feeda636e3d9be18f8389ffe4e00ff9e405e4c1b30ec7cc9d49cc"


def generate(grammar: Grammar = BUILT_IN, seed: int = SEED) -> dict[str, list[str]]:
    """The lines of every split; the built-in text is checked against its pinned digest."""
    splits = {}
    for index, (split, size) in enumerate(grammar.sizes.items()):
        # No two splits, of whatever seeds, have the same number.
        sampler = Sampler(grammar, len(grammar.sizes) * seed + index)
        splits[split] = _draw(sampler, size, grammar.words() if split == "train" else [])
    if grammar is BUILT_IN and seed == SEED:
        check_digest(splits, DIGEST, "")
    return splits


def _draw(sampler: Sampler, size: int, required: Sequence[str]) -> list[str]:
    """Lines until there are `size` tokens and every required word has been drawn.

    Drawing more lines, rather than dropping lines with unknown words, keeps the floor exact.
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
    return lines


def text_digest(splits: Mapping[str, Sequence[str]]) -> str:
    """SHA-256 of the splits' names and lines."""
    text = "".join(f"{line}\n" for split, lines in splits.items() for line in (split, *lines))
    return hashlib.sha256(text.encode()).hexdigest()


def check_digest(splits: Mapping[str, Sequence[str]], pinned: str, what: str) -> None:
    """Raise if a built-in corpus is not the one that trials' ids are of."""
    digest = text_digest(splits)
    if digest != pinned:
        raise CorpusError(
            f"the built-in corpus{what} came out with digest {digest}, not the pinned {pinned}:"
            " its grammar was changed, or this Python draws other random numbers."
        )
