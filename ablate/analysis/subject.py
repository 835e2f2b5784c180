"""What an analysis may ask of a finished trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from ablate import kept
from ablate.components.evaluator.standard import passes, rows_of, tokens_on
from ablate.components.flow import Pass
from ablate.config import Config, resolve
from ablate.data.corpus import Corpus, open_corpus
from ablate.errors import CombinationError, ConfigError, CorpusError, TrialError, nearest
from ablate.journal import COMPLETED, Journal
from ablate.model import LanguageModel
from ablate.store import Store
from ablate.train.checkpoint import weights_key
from ablate.train.finished import finished
from ablate.trial import load_modules

WINDOW = 200  # steps read at a time


@dataclass(frozen=True)
class Subject:
    """A trial; its weights, tokens and log-probabilities are read when they are asked for."""

    journal: Journal
    store: Store
    data: str

    @property
    def id(self) -> str:
        return self.journal.trial.id

    @property
    def name(self) -> str:
        trial = self.journal.trial
        return f"{trial.arm}, seed {trial.seed}" if trial.arm else trial.id

    @cached_property
    def config(self) -> Config:
        load_modules(self.journal.trial.modules)
        return resolve(self.journal.trial.values)

    @cached_property
    def corpus(self) -> Corpus:
        """The very tokens it was trained on."""
        found = open_corpus(self.config.corpus, self.data)
        if found.digest != self.journal.trial.corpus_digest:
            raise CorpusError(
                f"the corpus '{found.name}' in {self.data} is not the one that trial {self.id} "
                f"was trained on: its digest is {found.digest}, and was "
                f"{self.journal.trial.corpus_digest}. Allowed: the same text."
            )
        return found

    @cached_property
    def model(self) -> LanguageModel:
        """The weights it was judged by, in evaluation and in float64."""
        self._require_weights()
        model = finished(self.store, self.id, self.corpus, "cpu", self.journal.trial.values).model
        for each in (model, *model.members):
            each.double().requires_grad_(False)
        return model

    def require(self, slot: str, *names: str) -> None:
        """Refuse a trial whose technique for a slot is another than the analysis is about."""
        chosen = self.config.slots.get(slot)
        found = "none (it counts n-grams)" if chosen is None else f"'{chosen.name}'"
        if chosen is None or chosen.name not in names:
            raise CombinationError(
                f"trial {self.id} has {slot} = {found}, and this analysis is about "
                f"{' or '.join(names)}."
            )

    def require_whole(self, what: str) -> None:
        """Refuse a gate over several models, whose own layers are other trials'."""
        if self.model.members:
            bases = ", ".join(self.journal.trial.parent_ids("base"))
            raise CombinationError(
                f"trial {self.id} is a gate over other trials' models, and has no {what} of its "
                f"own. Allowed: {bases}."
            )

    def stream(self, split: str) -> np.ndarray:
        """A split's token numbers. What a trial must not see, its analysis does not see either."""
        if split == "test" and not self.journal.trial.reads_test:
            raise TrialError(
                f"trial {self.id} does not read the test split, so that nothing is chosen by it. "
                "Allowed: valid, or a trial that is an arm's last."
            )
        if split == "test":
            _ = self._looked_again
        return self.corpus.splits[split]

    @cached_property
    def _looked_again(self) -> int:
        """Once for each look at a trial: its test split was read by its study already."""
        return kept.remember_reading(self.store, self.id, "ablate analyze")

    def passes(self, split: str, num: int | None = None, rows: int = 1) -> Iterator[Pass]:
        """The model reading a split (its first `num` tokens), window after window."""
        stream = self.stream(split)
        end = len(stream) if num is None else min(len(stream), num + 1)
        yield from self.reading(self.corpus.stream(split)[:end], rows)

    def reading(self, tokens_N: Tensor, rows: int = 1) -> Iterator[Pass]:
        """The model reading tokens, but for the last of each row, which it only predicts."""
        rows_TB = rows_of(tokens_on(self.model, tokens_N), rows)
        for passed, _ in passes(self.model, rows_TB, WINDOW):
            yield passed

    def log_probs(self, split: str) -> np.ndarray:
        """log p of every token of a split but the first, as it was kept."""
        self._require_completed()
        return kept.read(self.store, self.id, split, len(self.stream(split)) - 1)

    def word(self, token: int) -> str:
        """A token as it is shown."""
        text = self.corpus.vocabulary[int(token)]
        return text if text.strip() else repr(text)

    def token(self, word: str) -> int:
        """The number of a word, or an error with the nearest that there is."""
        known = self.corpus.vocabulary
        if word in known:
            return known.index(word)
        hint = nearest(word, known)
        meant = f" Did you mean '{hint}'?" if hint else ""
        raise ConfigError(
            f"the vocabulary of trial {self.id} ({self.corpus.name}, {len(known)} {_kind(self)}) "
            f"has no '{word}'.{meant}"
        )

    def commonest(self, num: int, *, without: Sequence[int] = ()) -> list[int]:
        """The tokens that the training text has most of, most first."""
        order = np.argsort(-self.corpus.counts().numpy(), kind="stable")
        return [int(token) for token in order if token not in without][:num]

    def _require_completed(self) -> None:
        if self.journal.status != COMPLETED:
            state = self.journal.status or "still running"
            raise TrialError(f"trial {self.id} has not completed: it is {state}.")

    def _require_weights(self) -> None:
        self._require_completed()
        if self.config.ngram is not None:
            raise CombinationError(
                f"trial {self.id} counts n-grams, and this analysis reads the weights of a "
                "network. Allowed: any trial that trains one."
            )
        if self.store.read(weights_key(self.id)) is None:
            members = ", ".join(self.journal.trial.parent_ids("member"))
            instead = f"it judges those of {members}" if members else "it keeps none"
            raise TrialError(
                f"trial {self.id} left no weights in {self.store.uri}: {instead}. Allowed: a trial "
                "that trains, but for a search's."
            )


def check_same_text(subjects: Sequence[Subject]) -> None:
    """Refuse trials of different texts, whose words cannot be set beside each other."""
    first, *others = subjects
    for other in others:
        if other.corpus.digest != first.corpus.digest:
            raise CombinationError(
                f"trials {first.id} and {other.id} have read different texts "
                f"({first.corpus.name} {first.corpus.digest}, {other.corpus.name} "
                f"{other.corpus.digest}). Allowed: trials of the same one."
            )


def distinct_names(subjects: Sequence[Subject]) -> list[str]:
    """What the trials are called; with their ids, where two would be called the same."""
    names = [subject.name for subject in subjects]
    if len(set(names)) == len(names):
        return names
    return [f"{subject.name} ({subject.id[:6]})" for subject in subjects]


def _kind(subject: Subject) -> str:
    return "words" if subject.corpus.level == "word" else "characters"
