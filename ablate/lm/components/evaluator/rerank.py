"""Choosing among a parser's candidates by the probability of their linearised trees (Choe &
Charniak 2016; Takase et al. 2018, Section 7).

    score = (1 - w) sum_t log p(y_{t+1} | y_1..y_t) + w log p_parser

over a tree's brackets and words and the `<eos>` after it. The weight w of the parser's own score is
ours; the paper names none. Each tree is read from a zero state and an `<eos>`. The candidate with
the highest score is compared with the sentence's own tree; its bracket F1 is counted over the split
(`ablate/lm/parsing/bracketing.py`). `oracle_f1` is that of the best candidates, `first_f1` that of
the parser's own choices.

The candidates are `valid.nbest` and `test.nbest` of a folder (`ablate/lm/parsing/n_best.py`), or
those that the corpus has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from torch import Tensor

from ablate.config.metrics import BRACKET_F1, FIRST_F1, ORACLE_F1
from ablate.errors import CombinationError, CorpusError
from ablate.lm.components import Evaluator, Reading, TrainingText, register, setting
from ablate.lm.model.evaluator import no_log_probs
from ablate.lm.model.reading import sentence_log_probs
from ablate.lm.parsing.bracketing import Brackets, best_of, count_brackets, total
from ablate.lm.parsing.n_best import JUDGED, SUFFIX, Candidate, read_candidates

if TYPE_CHECKING:
    from ablate.lm.parsing.corpus import ParsedCorpus

AT_ONCE = 64  # trees that a model reads at a time
WEIGHTS = np.linspace(0, 1, 21)  # tried when the weight is tuned


def digest_of_candidates(folder: str) -> str:
    """A digest of a folder's lists, independent of its location."""
    files = [Path(folder) / f"{split}{SUFFIX}" for split in JUDGED]
    if not all(file.is_file() for file in files):
        return folder  # missing (so far): the plan can be shown, and the study reports the error
    parts = (hashlib.sha256(file.read_bytes()).digest() for file in files)
    return hashlib.sha256(b"".join(parts)).hexdigest()


@dataclass(frozen=True, kw_only=True)
class RerankConfig:
    """The candidates, and how they are scored."""

    candidates: str | None = setting(
        None,
        doc="folder with valid.nbest and test.nbest; none: the corpus's own candidates",
        identity=digest_of_candidates,
        file=True,
    )
    num_candidates: int = setting(50, doc="use the first N candidates of a sentence", low=1)
    parser_weight: float = setting(
        0.0, doc="w, the weight of the parser's log probability; 0: off", low=0, high=1
    )
    tune_weight: bool = setting(False, doc="use the w with the highest F1 on validation instead")


@dataclass(frozen=True, eq=False)
class Judged:
    """A sentence's candidates: their scores, and their brackets beside the sentence's own."""

    model_C: np.ndarray
    parser_C: np.ndarray
    brackets: tuple[Brackets, ...]

    def chosen(self, weight: float) -> Brackets:
        """Return the brackets of the best tree, with this weight of the parser's score."""
        scores_C = (1 - weight) * self.model_C + weight * self.parser_C
        return self.brackets[int(scores_C.argmax())]


def padded(sentences: Sequence[Sequence[int]], eos: int) -> tuple[Tensor, Tensor]:
    """Put sentences between two `<eos>`, in rows of one length; return the rows and lengths."""
    rows = [torch.tensor([eos, *sentence, eos]) for sentence in sentences]
    lengths = torch.tensor([len(row) for row in rows])
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=eos), lengths


def best_weight(sentences: Sequence[Judged]) -> float:
    """The weight with the highest F1; the smallest of several."""
    f1 = [total(judged.chosen(weight) for judged in sentences).f1 for weight in WEIGHTS]
    return float(WEIGHTS[int(np.argmax(f1))])


@lru_cache(maxsize=8)
def _read(file: Path, stamp: tuple[int, int], sentences: tuple) -> list[list[Candidate]]:
    """Read a file of candidates once for all trials, unless it is written again (`stamp`)."""
    try:
        with file.open(encoding="utf-8") as lines:
            return read_candidates(lines, sentences, str(file))
    except UnicodeDecodeError as error:
        raise CorpusError(f"{file} is not UTF-8 text: {error.reason}.") from error


@register(
    "evaluator",
    "rerank",
    config=RerankConfig,
    paper="takase2018doc",
    equation="Section 7, Table 11",
    departures=(
        "by default the candidates are those of a grammar estimated on the training trees; no "
        "paper reports results on these",
        "the paper says nothing of the parser's own score: its weight is ours, and off by default; "
        "the weights of model and parser add up to 1, and are tried in steps of 0.05",
        "a tree's score is the log-probability of all its tokens; the paper says perplexity, which "
        "is per token",
    ),
    metrics=(BRACKET_F1, ORACLE_F1, FIRST_F1),
)
@final
class Rerank(Evaluator):
    """The bracket F1 of the chosen trees; it has no log-probabilities of tokens."""

    gives_log_probs = False

    def __init__(self, config: RerankConfig) -> None:
        self.config = config

    def check_text(self, text: TrainingText) -> None:
        for split in JUDGED:
            self._candidates(_parsed(text), split)

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        raise no_log_probs("rerank", "chooses among trees")

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        sentences, weight = self._judged(reading, split), self.config.parser_weight
        tuned = {}
        if self.config.tune_weight:
            weight = best_weight(self._judged(reading, "valid"))
            tuned = {"parser_weight": weight}
        oracle = total(best_of(judged.brackets) for judged in sentences)
        return {
            BRACKET_F1.name: total(judged.chosen(weight) for judged in sentences).f1,
            ORACLE_F1.name: oracle.f1,
            FIRST_F1.name: total(judged.brackets[0] for judged in sentences).f1,
            "num_sentences": float(len(sentences)),
            **tuned,
        }

    def _judged(self, reading: Reading, split: str) -> list[Judged]:
        return reading.cached(("rerank", split), lambda: self._judge(reading, split))

    @torch.no_grad()
    def _judge(self, reading: Reading, split: str) -> list[Judged]:
        text = _parsed(reading.text)
        trees, lists = text.trees(split), self._candidates(text, split)
        pairs = zip(trees, lists, strict=True)
        number = text.num_sentences(split)
        if not number:
            raise CorpusError(
                f"there is no whole sentence in the {split} split. Instead: a greater "
                "corpus.eval_tokens."
            )
        return [
            Judged(
                self._model_scores(reading, text, candidates),
                np.array([candidate.log_score for candidate in candidates]),
                tuple(count_brackets(tree, candidate.tree) for candidate in candidates),
            )
            # A split may end within a sentence, whose tree is left out.
            for _, (tree, candidates) in zip(range(number), pairs, strict=False)
        ]

    def _model_scores(
        self, reading: Reading, text: ParsedCorpus, candidates: Sequence[Candidate]
    ) -> np.ndarray:
        if self.config.parser_weight == 1 and not self.config.tune_weight:
            # The model's scores would have no weight.
            return np.zeros(len(candidates))
        ids = [text.tree_ids(candidate.tree) for candidate in candidates]
        parts = [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]
        scores = [sentence_log_probs(reading.models, *padded(part, text.eos)) for part in parts]
        return np.concatenate(scores)

    def _candidates(self, text: ParsedCorpus, split: str) -> list[list[Candidate]]:
        number, sentences = self.config.num_candidates, text.trees(split)
        given = self.config.candidates
        folder = text.candidates_folder(number) if given is None else Path(given)
        file = folder / f"{split}{SUFFIX}"
        try:
            state = file.stat()
        except OSError as error:
            raise CorpusError(
                f"evaluator.rerank.candidates: there is no {file}. Expected: a folder with "
                f"{' and '.join(f'{split}{SUFFIX}' for split in JUDGED)}."
            ) from error
        words = tuple(tuple(tree.words) for tree in sentences)
        lists = _read(file, (state.st_mtime_ns, state.st_size), words)
        return [candidates[:number] for candidates in lists]


def _parsed(text: TrainingText) -> ParsedCorpus:
    """Return the text, or refuse a text without trees."""
    if not getattr(text, "trees", lambda split: ())("valid"):
        raise CombinationError(
            "evaluator.rerank chooses among trees, and the corpus has none. Instead: corpus.name = "
            "'grammar_trees', 'treebank' or a folder of trees, and corpus.level = 'tree'."
        )
    return text  # type: ignore[return-value]
