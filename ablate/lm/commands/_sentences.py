"""The part of `ablate trial tokens` about sentences that trials wrote: BLEU and ROUGE of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.compare.formats import Table, table_of
from ablate.compare.statistics import paired, tokens
from ablate.compare.table.columns import p_value, with_interval
from ablate.lm.scores import bleu, rouge

NAMES = {"rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L"}
DIGITS = 2


@dataclass(frozen=True)
class Tokenizers:
    """How either score cuts a sentence into words."""

    bleu: str = bleu.TOKENIZER
    rouge: str = rouge.UNICODE


@dataclass(frozen=True)
class Counted:
    """A score of several trials: for each, a row of counts for each sentence."""

    name: str
    rows: Mapping[str, np.ndarray]  # by trial
    score_of: Callable[[np.ndarray], float]  # of the sum of rows


def scores_table(
    written: Mapping[str, Sequence[str]],
    references: Sequence[str],
    tokenizers: Tokenizers,
    split: str,
) -> Table:
    """Each trial's scores, and how they differ from those of the first."""
    counted = _counted(written, references, tokenizers)
    first, *others = written
    differences = [
        tokens.score_difference(score.rows[name], score.rows[first], score.score_of)
        for score in counted
        for name in others
    ]
    # One correction over all scores and trials: the table shows them together.
    corrected = iter(paired.holm([difference.p for difference in differences]))
    left = iter(differences)
    body: list[list[Any]] = []
    for score in counted:
        for name, rows in score.rows.items():
            value = f"{score.score_of(rows.sum(0)):.{DIGITS}f}"
            cells: list[Any] = ["", "", ""]
            if name != first:
                difference = next(left)
                better = f"{difference.num_better / difference.num_sentences:.0%}"
                change = with_interval(difference.mean, difference.interval, DIGITS)
                cells = [change, better, p_value(next(corrected))]
            body.append([name, score.name, value, *cells])
    tested = any(difference.interval is not None for difference in differences)
    change = "Δ first\n[95% interval]" if tested else "Δ first"
    titles = [split, "score", "value", change, "better\nsentences", "Holm\np"]
    return table_of(titles, body, left=("score",))


def signatures(references: Sequence[str], tokenizers: Tokenizers) -> str:
    """How the scores are counted."""
    of_bleu = bleu.bleu(references, references, tokenizers.bleu).signature
    return f"BLEU {of_bleu}; ROUGE {rouge.signature(tokenizers.rouge)}"


def _counted(
    written: Mapping[str, Sequence[str]], references: Sequence[str], tokenizers: Tokenizers
) -> list[Counted]:
    right = {
        name: np.array(bleu.counts(lines, references, tokenizers.bleu))
        for name, lines in written.items()
    }
    recalled = {
        name: rouge.by_sentence(lines, references, tokenizers.rouge)
        for name, lines in written.items()
    }
    means = [
        Counted(NAMES[key], {name: _with_ones(f1[key]) for name, f1 in recalled.items()}, _mean)
        for key in NAMES
    ]
    return [Counted("BLEU", right, bleu.score_of), *means]


def _with_ones(values: Sequence[float]) -> np.ndarray:
    # A mean is a sum of values over a sum of ones, so that rows can be drawn and added.
    return np.stack([np.array(values), np.ones(len(values))], 1)


def _mean(summed: np.ndarray) -> float:
    return float(summed[0] / summed[1])
