"""Sentence completion: which of five words fits the blank (Pachitariu & Sahani 2013).

Each completed sentence is read from a zero state, from the end of the previous sentence (if the
text has such a token) to its own end; the option with the highest score is the model's answer.

    log_probability    sum_t log p(y_{t+1} | y_1..y_t)
    long_units         sum_t Z[y_{t+1}] . x_t over some units only, not normalized: an IRLM's
                       long-context units, an RNN's block of 384

An n-gram model, mixed with a cache if it has one, gives log-probabilities as well. Its history
begins with the sentence.

The questions are read from a folder with Microsoft Research's `testing_data.csv` and
`test_answer.csv`, or generated from the evaluated split: in each of its sentences a random word is
hidden among four others, drawn by their frequency in training. For generated questions the metric
`generated` is 1: their accuracy cannot be compared with that of the published questions.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

from ablate.config.metrics import ACCURACY
from ablate.config.streams import Streams
from ablate.errors import CombinationError, CorpusError
from ablate.lm.components import (
    Evaluator,
    LanguageModel,
    Reading,
    TrainingText,
    register,
    setting,
)
from ablate.lm.kinds import COUNTS, TEXT
from ablate.lm.model.evaluator import no_log_probs
from ablate.lm.model.reading import sentence_log_probs, sentence_passes

NUM_DISTRACTORS = 4
BLANK, UNKNOWN = "_____", "<unk>"
PIECE = 20  # tokens per sentence if the text has no sentences
QUESTIONS, ANSWERS = "testing_data.csv", "test_answer.csv"


def digest_of_questions(folder: str) -> str:
    """A digest of both files, independent of their location."""
    digest = hashlib.sha256()
    try:
        for name in (QUESTIONS, ANSWERS):
            digest.update(hashlib.sha256((Path(folder) / name).read_bytes()).digest())
    except OSError:
        return folder  # missing (so far): the plan can be shown, and the trial reports the error
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class CompletionConfig:
    """The questions, and how an option is scored."""

    questions: str | None = setting(
        None,
        doc="folder with testing_data.csv and test_answer.csv; none: generate questions",
        identity=digest_of_questions,
        file=True,
    )
    num_questions: int = setting(1000, doc="maximum number of generated questions", low=1)
    seed: int = setting(0, doc="random seed of the generated questions", low=0)
    score: str = setting(
        "log_probability", doc="score of an option", choices=("log_probability", "long_units")
    )
    units: tuple[int, int] | None = setting(
        None, doc="with long_units: the range of units (first, last + 1)", low=0
    )


@dataclass(frozen=True)
class Question:
    """The tokens of the sentence with each option, and the number of the right option."""

    options_OT: Tensor
    answer: int


def generated_questions(
    stream_N: Tensor, text: TrainingText, num_questions: int, streams: Streams
) -> list[Question]:
    """One question from each of the first sentences."""
    frequency = text.counts().double()
    if text.eos is not None:
        frequency[text.eos] = 0  # the end of a sentence fills no blank
    questions = []
    for sentence in _sentences(stream_N.tolist(), text.eos):
        if len(questions) == num_questions:
            break
        # A stream for each question, so that `num_questions` changes none of the others.
        chance = streams.generator("completion", len(questions))
        questions.append(_generate_question(sentence, frequency, text.eos, chance))
    return questions


def _generate_question(
    sentence: Sequence[int], frequency: Tensor, eos: int | None, chance: torch.Generator
) -> Question:
    """Hide a random word. The answer's position is random too, so ties favor no option."""
    at = int(torch.randint(len(sentence), (), generator=chance))
    others = frequency.clone()
    others[sentence[at]] = 0
    if int((others > 0).sum()) < NUM_DISTRACTORS:
        raise CorpusError(
            f"a question needs {NUM_DISTRACTORS} other words, but the training text has fewer."
        )
    words = torch.multinomial(others, NUM_DISTRACTORS, generator=chance).tolist()
    answer = int(torch.randint(NUM_DISTRACTORS + 1, (), generator=chance))
    words.insert(answer, sentence[at])
    options = [[*sentence[:at], word, *sentence[at + 1 :]] for word in words]
    return Question(_enclosed(options, eos), answer)


def _sentences(stream: Sequence[int], eos: int | None) -> Iterator[list[int]]:
    """The sentences of at least two words."""
    if eos is None:
        pieces = [list(stream[at : at + PIECE]) for at in range(0, len(stream), PIECE)]
    else:
        runs = groupby(stream, key=eos.__eq__)
        pieces = [list(run) for is_end, run in runs if not is_end]
    return (piece for piece in pieces if len(piece) > 1)


def _enclosed(options: Sequence[Sequence[int]], eos: int | None) -> Tensor:
    """Put each sentence between two sentence ends, as in the text."""
    if eos is None:
        return torch.tensor(options)
    return torch.tensor([[eos, *option, eos] for option in options])


def read_questions(folder: Path, text: TrainingText) -> list[Question]:
    """Read the published format: one blank per sentence, options and answers by letter."""
    try:
        with (folder / QUESTIONS).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        with (folder / ANSWERS).open(encoding="utf-8", newline="") as file:
            answers = {row["id"]: row["answer"] for row in csv.DictReader(file)}
        numbers = {word: number for number, word in enumerate(text.vocabulary)}
        return [_parse_question(row, answers, numbers, text.eos) for row in rows]
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:  # KeyError: no such column
        raise CorpusError(
            f"evaluator.completion.questions = '{folder}' cannot be read ({error}). Expected: a "
            f"folder with {QUESTIONS} (id, question, a), b), ...) and {ANSWERS} (id, answer)."
        ) from error


def _parse_question(
    row: dict[str, str], answers: dict[str, str], numbers: dict[str, int], eos: int | None
) -> Question:
    letters = [name for name in row if name not in ("id", "question")]
    if None in letters or None in row.values():  # as DictReader marks too many fields, or too few
        raise CorpusError(
            f"question {row['id']} has more or fewer fields than the file has columns."
        )
    answer = f"{answers.get(row['id'], '')})"
    if answer not in letters or BLANK not in row["question"]:
        raise CorpusError(
            f"question {row['id']} has no blank ({BLANK}) or no answer among {', '.join(letters)}."
        )
    before, _, after = row["question"].partition(BLANK)
    tokens = [
        [_number(word, numbers) for word in (*_words(before), row[letter], *_words(after))]
        for letter in letters
    ]
    return Question(_enclosed(tokens, eos), letters.index(answer))


def _words(text: str) -> list[str]:
    """Split at spaces and before the final punctuation mark; the file is otherwise tokenized."""
    words = text.split()
    if words and words[-1][-1] in ".?!" and len(words[-1]) > 1:
        words[-1:] = [words[-1][:-1], words[-1][-1]]
    return words


def _number(word: str, numbers: dict[str, int]) -> int:
    """The number of the word as written, else in lower case, else of <unk>."""
    for known in (word, word.lower(), UNKNOWN):
        if known in numbers:
            return numbers[known]
    raise CorpusError(
        f"the word '{word}' of a question is not in the corpus, which has no {UNKNOWN}. Instead: a "
        "corpus with corpus.min_count above 1."
    )


def long_unit_scores(
    models: Sequence[LanguageModel], options_OT: Tensor, units: slice | Tensor
) -> np.ndarray:
    """sum_t Z[y_{t+1}] . x_t over some units of x, without a bias; the mean over the models."""
    by_model = []
    for mixture, targets_TO in sentence_passes(models, options_OT):
        bent = mixture.gate is not None or mixture.cap is not None
        if mixture.log_prior_NJ is not None or bent:
            raise CombinationError(
                "evaluator.completion.score = 'long_units' needs the head's score of single units. "
                "Instead: a head with one expert (softmax or mlp), no gate and no head.logit_cap."
            )
        vectors_TOE = mixture.vectors_NJE[:, 0].unflatten(0, targets_TO.shape)
        products_TOE = (vectors_TOE * mixture.weight_VE[targets_TO])[..., units]
        by_model.append(products_TOE.double().sum((0, 2)).cpu().numpy())
    return np.mean(by_model, 0)


@register(
    "evaluator",
    "completion",
    config=CompletionConfig,
    paper="pachitariu2013irlm",
    equation="Section 5.3, Table 1d",
    departures=(
        "words that are not in the corpus are read as <unk>",
        "by default the questions are generated; no paper reports results on these",
    ),
    metrics=(ACCURACY,),
)
@final
class Completion(Evaluator):
    """The share of questions answered correctly; it has no log-probabilities of tokens."""

    reads = frozenset({TEXT, COUNTS})
    gives_log_probs = False

    def __init__(self, config: CompletionConfig) -> None:
        if config.score == "long_units" and config.units is None:
            raise CombinationError(
                "evaluator.completion.score = 'long_units' needs a range of units. Instead: set "
                "evaluator.completion.units to (first, last + 1)."
            )
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        raise no_log_probs("completion", "answers questions")

    @torch.no_grad()
    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        """Published questions belong to no split and are answered once, with test."""
        generated = self.config.questions is None
        if reading.counts is not None and self.config.score == "long_units":
            raise CombinationError(
                "evaluator.completion.score = 'long_units' needs units, and an n-gram model has "
                "none. Instead: score = 'log_probability'."
            )
        if not generated and split != "test":
            return {}
        questions = self._questions(reading, split)
        right = [int(self._scores(reading, q).argmax()) == q.answer for q in questions]
        return {
            ACCURACY.name: sum(right) / len(right),
            "num_questions": float(len(right)),
            "generated": float(generated),
        }

    def _questions(self, reading: Reading, split: str) -> list[Question]:
        config = self.config
        if config.questions is not None:
            questions = read_questions(Path(config.questions), reading.text)
        else:
            settings = (config.num_questions, Streams(config.seed))
            questions = generated_questions(reading.stream(split), reading.text, *settings)
        if not questions:
            raise CorpusError(f"there are no questions in {config.questions or split}.")
        return questions

    def _scores(self, reading: Reading, question: Question) -> np.ndarray:
        if reading.counts is not None:
            options = question.options_OT.numpy()
            return np.array([reading.counts.log_probs(option).sum() for option in options])
        if self.config.score == "log_probability" or self.config.units is None:
            return sentence_log_probs(reading.models, question.options_OT)
        return long_unit_scores(reading.models, question.options_OT, slice(*self.config.units))
