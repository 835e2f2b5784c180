"""ROUGE-1, -2 and -L (Lin, 2004), by rouge-score: F1 of a sentence, and its mean over a text.

Words are in lower case and not stemmed. Punctuation separates them; everything else belongs to a
word, so `#`, letters of any script and their marks count, which rouge-score's own tokenizer drops.
Text in a script without spaces must have been cut into words before.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

NAMES = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}


class _Words:
    """A tokenizer, as rouge-score calls it."""

    def tokenize(self, text: str) -> list[str]:
        return "".join(" " if _separates(letter) else letter for letter in text.lower()).split()


@cache
def _separates(letter: str) -> bool:
    return letter != "#" and unicodedata.category(letter)[0] in "PS"


def rouge(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """The mean F1 over the sentences, from 0 to 100."""
    by_name = by_sentence(hypotheses, references)
    return {name: sum(values) / len(values) for name, values in by_name.items()}


def by_sentence(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, list[float]]:
    """The F1 of every sentence, from 0 to 100."""
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses cannot have {len(references)} references.")
    scorer = _scorer()
    pairs = zip(hypotheses, references, strict=True)
    scored = [scorer.score(reference, hypothesis) for hypothesis, reference in pairs]
    return {name: [100 * one[theirs].fmeasure for one in scored] for name, theirs in NAMES.items()}


def signature() -> str:
    """How the scores are counted, to be recorded beside them."""
    from importlib.metadata import version

    return f"F1|case:lc|stem:no|tok:unicode|rouge-score:{version('rouge-score')}"


def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(NAMES.values()), tokenizer=_Words())
