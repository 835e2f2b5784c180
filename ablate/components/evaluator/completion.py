"""Sentence completion: which of five words belongs in the blank (Pachitariu & Sahani 2013).

Each completed sentence is read from a zero state, after the end of a sentence if the text has
such a token, to its own end; the option of the highest score is the model's answer.

    log_probability    sum_t log p(y_{t+1} | y_1..y_t)
    long_units         sum_t Z[y_{t+1}] . x_t over the long-context units alone, not normalised

The questions are those of a folder that holds Microsoft Research's `testing_data.csv` and
`test_answer.csv`, or are made from the split that is judged: in each of its sentences one word,
drawn from a named stream, is hidden among four others drawn by their frequency in training. The
metric `generated` is 1 for these: their accuracy says nothing about the published questions.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

from ablate.components.evaluator import Evaluator, Reading, log_mean_exp
from ablate.components.flow import TrainingText
from ablate.components.mixture import token_nll
from ablate.errors import CombinationError, CorpusError
from ablate.fields import setting
from ablate.model import LanguageModel
from ablate.registry import register
from ablate.streams import Streams

NUM_DISTRACTORS = 4
BLANK, UNKNOWN = "_____", "<unk>"
PIECE = 20  # tokens of a sentence where the text has none


@dataclass(frozen=True, kw_only=True)
class CompletionConfig:
    """Which questions, and how an option is scored."""

    questions: str | None = setting(
        None, doc="a folder with testing_data.csv and test_answer.csv; none: generated"
    )
    num_questions: int = setting(1000, doc="generated: at most so many", low=1)
    seed: int = setting(0, doc="generated: of the hidden words and the others", low=0)
    score: str = setting(
        "log_probability", doc="of an option", choices=("log_probability", "long_units")
    )
    units: tuple[int, int] | None = setting(
        None, doc="long_units: the first of them, and the first after them", low=0
    )


@dataclass(frozen=True)
class Question:
    """The sentence once with each option, token for token, and which of them is right."""

    options_OT: Tensor
    answer: int


def generated_questions(
    stream_N: Tensor, text: TrainingText, num_questions: int, streams: Streams
) -> list[Question]:
    """A question from each of the first sentences."""
    frequency = text.counts().double()
    if text.eos is not None:
        frequency[text.eos] = 0
    found = []
    for sentence in _sentences(stream_N.tolist(), text.eos):
        if len(found) == num_questions:
            break
        chance = streams.generator("completion", len(found))
        found.append(_hidden(sentence, frequency, text.eos, chance))
    return found


def _hidden(
    sentence: Sequence[int], frequency: Tensor, eos: int | None, chance: torch.Generator
) -> Question:
    """The answer's place among the options is drawn too, so that a tie favours nobody."""
    at = int(torch.randint(len(sentence), (), generator=chance))
    others = frequency.clone()
    others[sentence[at]] = 0
    if int((others > 0).sum()) < NUM_DISTRACTORS:
        raise CorpusError(
            f"a question needs {NUM_DISTRACTORS} other words, and the training text has fewer."
        )
    words = torch.multinomial(others, NUM_DISTRACTORS, generator=chance).tolist()
    answer = int(torch.randint(NUM_DISTRACTORS + 1, (), generator=chance))
    words.insert(answer, sentence[at])
    options = [[*sentence[:at], word, *sentence[at + 1 :]] for word in words]
    return Question(_enclosed(options, eos), answer)


def _sentences(stream: Sequence[int], eos: int | None) -> Iterator[list[int]]:
    """Those of at least two words."""
    if eos is None:
        pieces = [list(stream[at : at + PIECE]) for at in range(0, len(stream), PIECE)]
    else:
        pieces, ends = [], [at for at, token in enumerate(stream) if token == eos]
        for start, stop in zip([-1, *ends], [*ends, len(stream)], strict=True):
            pieces.append(list(stream[start + 1 : stop]))
    return (piece for piece in pieces if len(piece) > 1)


def _enclosed(options: Sequence[Sequence[int]], eos: int | None) -> Tensor:
    """Each sentence as it stands in the text: after one end of a sentence and before the next."""
    if eos is None:
        return torch.tensor(options)
    return torch.tensor([[eos, *option, eos] for option in options])


def read_questions(folder: Path, text: TrainingText) -> list[Question]:
    """The published format: one blank a sentence, options and answers by letter."""
    try:
        with (folder / "testing_data.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        with (folder / "test_answer.csv").open(encoding="utf-8", newline="") as file:
            answers = {row["id"]: row["answer"] for row in csv.DictReader(file)}
    except (OSError, KeyError, UnicodeDecodeError) as error:
        raise CorpusError(
            f"evaluator.completion.questions = '{folder}' cannot be read ({error}). Wanted: a "
            "folder with testing_data.csv (id, question, a), b), ...) and test_answer.csv (id, "
            "answer)."
        ) from error
    numbers = {word: number for number, word in enumerate(text.vocabulary)}
    return [_read(row, answers, numbers, text.eos) for row in rows]


def _read(
    row: dict[str, str], answers: dict[str, str], numbers: dict[str, int], eos: int | None
) -> Question:
    letters = [name for name in row if name not in ("id", "question")]
    answer = f"{answers.get(row['id'], '')})"
    if answer not in letters or BLANK not in row["question"]:
        raise CorpusError(
            f"question {row['id']} has no blank ({BLANK}), or no answer among {', '.join(letters)}."
        )
    before, _, after = row["question"].partition(BLANK)
    tokens = [
        [_number(word, numbers) for word in (*_words(before), row[letter], *_words(after))]
        for letter in letters
    ]
    return Question(_enclosed(tokens, eos), letters.index(answer))


def _words(text: str) -> list[str]:
    """The file stands in tokens but for the mark that ends a sentence."""
    words = text.split()
    if words and words[-1][-1] in ".?!" and len(words[-1]) > 1:
        words[-1:] = [words[-1][:-1], words[-1][-1]]
    return words


def _number(word: str, numbers: dict[str, int]) -> int:
    """As it stands, else in lower case, else unknown."""
    for known in (word, word.lower(), UNKNOWN):
        if known in numbers:
            return numbers[known]
    raise CorpusError(
        f"the word '{word}' of a question is not in the corpus, which has no {UNKNOWN}. Allowed: a "
        "corpus with corpus.min_count above 1."
    )


def log_probability_scores(models: Sequence[LanguageModel], options_OT: Tensor) -> np.ndarray:
    """log p of each option's sentence after its first token, by the models' mean probability."""
    num_options = len(options_OT)
    each = []
    for model in models:
        ids_TO = options_OT.t().to(model.embedding.weight.device)
        passed = model(ids_TO[:-1], model.initial_state(num_options))
        nll_TO = token_nll(passed.mixture, ids_TO[1:].flatten()).view(-1, num_options)
        each.append(-nll_TO.double().cpu().numpy())
    return log_mean_exp(np.stack(each)).sum(0)


def unit_scores(
    vectors_TOE: Tensor, weight_VE: Tensor, targets_TO: Tensor, units: slice | Tensor
) -> np.ndarray:
    """sum_t Z[y_{t+1}] . x_t over some units of x, for each option."""
    products_TOE = vectors_TOE[..., units] * weight_VE[targets_TO][..., units]
    return products_TOE.double().sum((0, 2)).cpu().numpy()


def long_unit_scores(
    models: Sequence[LanguageModel], options_OT: Tensor, units: slice | Tensor
) -> np.ndarray:
    """The mean over models of `unit_scores`; of a head that is one softmax, without its bias."""
    each = []
    for model in models:
        ids_TO = options_OT.t().to(model.embedding.weight.device)
        passed = model(ids_TO[:-1], model.initial_state(len(options_OT)))
        mixture = passed.mixture
        if mixture.log_prior_NJ is not None or mixture.gate is not None:
            raise CombinationError(
                "evaluator.completion.score = 'long_units' reads single units as the head does. "
                "Allowed: a head of one component, and no gate."
            )
        vectors_TOE = mixture.vectors_NJE[:, 0].unflatten(0, (-1, len(options_OT)))
        each.append(unit_scores(vectors_TOE, mixture.weight_VE, ids_TO[1:], units))
    return np.mean(each, 0)


@register(
    "evaluator",
    "completion",
    config=CompletionConfig,
    paper="pachitariu2013irlm",
    equation="Section 5.3, Table 1d",
    departures=(
        "words that the corpus has not are read as <unk>",
        "by default the questions are generated ones, which no paper reports",
    ),
)
@final
class Completion(Evaluator):
    """The share of questions answered rightly; it gives no token's log-probability."""

    gives_log_probs = False

    def __init__(self, config: CompletionConfig) -> None:
        if config.score == "long_units" and config.units is None:
            raise CombinationError(
                "evaluator.completion.score = 'long_units' does not say which. Set "
                "evaluator.completion.units to the first of them and the first after them."
            )
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        raise CombinationError(
            "evaluator 'completion' answers questions and gives no token's log-probability, so "
            "that no other evaluator can build on it."
        )

    @torch.no_grad()
    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        """Published questions belong to no split and are asked once, with test."""
        made = self.config.questions is None
        if not made and split != "test":
            return {}
        questions = self._questions(reading, split)
        right = [int(self._scores(reading, q).argmax()) == q.answer for q in questions]
        return {
            "accuracy": sum(right) / len(right),
            "num_questions": float(len(right)),
            "generated": float(made),
        }

    def _questions(self, reading: Reading, split: str) -> list[Question]:
        config = self.config
        if config.questions is not None:
            found = read_questions(Path(config.questions), reading.text)
        else:
            how = (config.num_questions, Streams(config.seed))
            found = generated_questions(reading.stream(split), reading.text, *how)
        if not found:
            raise CorpusError(f"there are no questions in {config.questions or split}.")
        return found

    def _scores(self, reading: Reading, question: Question) -> np.ndarray:
        if self.config.score == "log_probability" or self.config.units is None:
            return log_probability_scores(reading.models, question.options_OT)
        return long_unit_scores(reading.models, question.options_OT, slice(*self.config.units))
