"""BLEU (Papineni et al., 2002), by sacrebleu, of a text and of some of its sentences.

A score is that of a whole text: counts of its n-grams are added up over the sentences before they
become one number. `counts` gives them sentence by sentence, and `score_of` the score of any sum of
them, as an interval over sentences needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

TOKENIZER = "13a"  # of mteval-v13a, by which scores are usually compared


@dataclass(frozen=True)
class Bleu:
    """A score, from 0 to 100, and sacrebleu's signature of how it was counted."""

    score: float
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = TOKENIZER) -> Bleu:
    """BLEU of detokenized text, with one reference for each sentence."""
    metric = _metric(tokenizer)
    scored = metric.corpus_score(*_checked(hypotheses, references))
    return Bleu(_at_most(scored.score), str(metric.get_signature()))


def tokenized_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU as older papers count it (`multi-bleu.perl`): spaces separate words, and nothing is
    smoothed. The text must have been tokenized before; otherwise the score is lower.
    """
    metric = _metric("none", smooth_method="none")
    return _at_most(metric.corpus_score(*_checked(hypotheses, references)).score)


def counts(
    hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = TOKENIZER
) -> list[list[int]]:
    """For each sentence: its length, its reference's, its right n-grams and all its n-grams."""
    # sacrebleu warns without it; the counts are the same.
    metric = _metric(tokenizer, effective_order=True)
    ours, (theirs,) = _checked(hypotheses, references)
    scored = (
        metric.sentence_score(*pair) for pair in zip(ours, ([one] for one in theirs), strict=True)
    )
    return [[one.sys_len, one.ref_len, *one.counts, *one.totals] for one in scored]


def score_of(summed: Iterable[float]) -> float:
    """The score of sentences whose counts were added up."""
    from sacrebleu.metrics.bleu import BLEU

    # Sums of blocks are floats, and counts are whole numbers.
    length, reference_length, *ngrams = map(int, summed)
    half = len(ngrams) // 2
    right, total = ngrams[:half], ngrams[half:]
    # The smoothing is sacrebleu's default, as in `bleu`: both give the same score for a whole text.
    scored = BLEU.compute_bleu(right, total, length, reference_length, smooth_method="exp")
    return _at_most(scored.score)


def _at_most(score: float) -> float:
    """Return the score, at most 100: a perfect one may come out a rounding error higher."""
    return min(score, 100.0)


def _metric(tokenizer: str, **settings: Any) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenizer, force=True, **settings)  # no warning of tokenized text


def _checked(
    hypotheses: Sequence[str], references: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses cannot have {len(references)} references.")
    return list(hypotheses), [list(references)]
