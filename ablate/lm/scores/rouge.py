"""ROUGE-1, -2 and -L (Lin, 2004), by rouge-score: F1 of a sentence, and its mean over a text.

Words are in lower case and not stemmed. Which characters belong to a word is a choice of two:

    rouge-1.5.5   a to z and 0 to 9, as in Lin's program of that name; rouge-score's own tokenizer
    unicode       everything but punctuation and symbols, so letters of any script and their marks;
                  and `#`, which stands for a digit in some texts. Text in a script without spaces
                  must have been cut into words before

Published numbers are of Lin's program, unless a paper says otherwise.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

NAMES = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}
LIN, UNICODE = TOKENIZERS = ("rouge-1.5.5", "unicode")


class _Words:
    """A tokenizer, as rouge-score calls it."""

    def tokenize(self, text: str) -> list[str]:
        return "".join(" " if _separates(letter) else letter for letter in text.lower()).split()


@cache  # a text has few different letters, and many of each
def _separates(letter: str) -> bool:
    return letter != "#" and unicodedata.category(letter)[0] in "PS"


def rouge(
    hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = UNICODE
) -> dict[str, float]:
    """The mean F1 over the sentences, from 0 to 100."""
    by_name = by_sentence(hypotheses, references, tokenizer)
    return {name: sum(values) / len(values) for name, values in by_name.items()}


def by_sentence(
    hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = UNICODE
) -> dict[str, list[float]]:
    """The F1 of every sentence, from 0 to 100."""
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses cannot have {len(references)} references.")
    scorer = _scorer(tokenizer)
    pairs = zip(hypotheses, references, strict=True)
    scored = [scorer.score(reference, hypothesis) for hypothesis, reference in pairs]
    return {name: [100 * one[theirs].fmeasure for one in scored] for name, theirs in NAMES.items()}


def signature(tokenizer: str = UNICODE) -> str:
    """Return how the scores are counted, to be recorded with them."""
    from importlib.metadata import version

    return f"F1|case:lc|stem:no|tok:{tokenizer}|rouge-score:{version('rouge-score')}"


def _scorer(tokenizer: str) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    own = None if tokenizer == LIN else _Words()  # None: rouge-score's own
    return RougeScorer(list(NAMES.values()), tokenizer=own)
