"""Access to a finished trial, for analyses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from ablate.config.config import Config
from ablate.config.identity import Role
from ablate.errors import CombinationError, ConfigError, CorpusError, TrialError, nearest
from ablate.lm.data.corpus import Corpus, charged, open_corpus
from ablate.lm.model.flow import Pass
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.reading import in_float64, read
from ablate.lm.training.finished import finished
from ablate.store import tokens as saved
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.store import Store, remake
from ablate.trial.checkpoint import weights_key
from ablate.trial.run import load_modules


@dataclass(frozen=True)
class Subject:
    """A trial; its weights, tokens and log-probabilities are read on first use."""

    journal: Journal
    store: Store
    data: str

    @property
    def id(self) -> str:
        """The trial's id."""
        return self.journal.trial.id

    @property
    def name(self) -> str:
        """The trial's arm and seed."""
        return self.journal.trial.name

    @cached_property
    def config(self) -> Config:
        """The trial's config, once its own modules are loaded."""
        load_modules(self.journal.trial.modules)
        return self.journal.trial.config

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus it was trained on, verified by its digest."""
        if not self.config.kind.slots:
            raise CombinationError(
                f"trial {self.id} is of the task '{self.config.kind.name}', which reads no text; "
                "the analyses read one text. Instead: a trial of a language model."
            )
        corpus = open_corpus(self.config.corpus, self.data, self.journal.trial.seed)
        if not isinstance(corpus, Corpus):
            raise CombinationError(
                f"trial {self.id} is of the task '{self.config.kind.name}', which reads pairs of "
                "sentences; the analyses read one text. Instead: a trial of a language model."
            )
        own = (corpus.digest, charged(corpus.digest))
        if self.journal.trial.corpus_digest not in own:  # another text by now
            raise CorpusError(
                f"the corpus '{corpus.name}' in {self.data} is not the one that trial {self.id} "
                f"was trained on: its digest is {corpus.digest}, and was "
                f"{self.journal.trial.corpus_digest}. Instead: the same text."
            )
        return corpus

    @cached_property
    def model(self) -> LanguageModel:
        """The model with the evaluated weights, in evaluation mode and float64."""
        self._require_weights()
        return in_float64(finished(self.store, self.id, self.corpus, "cpu", self.config).model)

    def require(self, slot: str, *names: str) -> None:
        """Refuse a trial whose technique for a slot is not one of those that the analysis needs."""
        chosen = self.config.slots.get(slot)
        shown = f"'{chosen.name}'" if chosen else f"none (its task is '{self.config.kind.name}')"
        if chosen is None or chosen.name not in names:
            raise CombinationError(
                f"trial {self.id} has {slot} = {shown}, and this analysis is about "
                f"{' or '.join(names)}."
            )

    def require_whole(self, what: str) -> None:
        """Refuse a gate over several models, whose layers belong to other trials."""
        if self.model.members:
            bases = ", ".join(self.journal.trial.parent_ids(Role.BASE))
            raise CombinationError(
                f"trial {self.id} is a gate over other trials' models, and has no {what} of its "
                f"own. Instead, one of: {bases}."
            )

    def stream(self, split: str) -> np.ndarray:
        """A split's token numbers. A trial that must not read test has no analysis of test."""
        if split == "test" and not self.journal.trial.reads_test:
            raise TrialError(
                f"trial {self.id} does not read the test split, so that no choice depends on it. "
                "Instead: split=valid, or the last trial of an arm."
            )
        if split == "test":
            _ = self._test_reading  # for its effect, which a cached property has once
        return self.corpus.splits[split]

    @cached_property
    def _test_reading(self) -> int:
        """The number of readings of test, this one included, which is recorded once per subject."""
        return saved.remember_reading(self.store, self.id, "ablate trial analyze")

    def passes(self, split: str, num: int | None = None, rows: int = 1) -> Iterator[Pass]:
        """Run the model over a split (its first `num` tokens), window by window."""
        stream = self.stream(split)
        end = len(stream) if num is None else min(len(stream), num + 1)
        return self.reading(self.corpus.stream(split)[:end], rows)

    def reading(self, tokens_N: Tensor, rows: int = 1) -> Iterator[Pass]:
        """Run the model over tokens; the last token of each row is only predicted."""
        return read(self.model, tokens_N, rows)

    def log_probs(self, split: str) -> np.ndarray:
        """The saved log p of every token of a split except the first."""
        self._require_completed()
        return saved.read(self.store, self.id, split, len(self.stream(split)) - 1)

    def word(self, token: int) -> str:
        """A token as text; white space is quoted."""
        text = self.corpus.vocabulary[int(token)]
        return text if text.strip() else repr(text)

    def token(self, word: str) -> int:
        """The number of a word; an error names the nearest known word."""
        known = self.corpus.vocabulary
        if word in known:
            return known.index(word)
        hint = nearest(word, known)
        meant = f" Did you mean '{hint}'?" if hint else ""
        raise ConfigError(
            f"the vocabulary of trial {self.id} ({self.corpus.name}, {len(known)} {_kind(self)}) "
            f"has no '{word}'.{meant}"
        )

    def commonest(self, num: int, *, without: Sequence[str] = ()) -> list[int]:
        """The most common tokens of the training text except some words, most common first."""
        # Stable: words of equal counts keep the vocabulary's order on every machine.
        order = np.argsort(-self.corpus.counts().numpy(), kind="stable").tolist()
        return [token for token in order if self.corpus.vocabulary[token] not in without][:num]

    def _require_completed(self) -> None:
        if self.journal.status != Status.COMPLETED:
            state = self.journal.status or "still running"
            raise TrialError(f"trial {self.id} has not completed: it is {state}.")

    def _require_weights(self) -> None:
        self._require_completed()
        if not self.config.kind.assembles:
            raise CombinationError(
                f"trial {self.id} is of the task '{self.config.kind.name}'; this analysis reads "
                "the weights of a language model. Instead: a trial that trains one."
            )
        if self.store.read(weights_key(self.id)) is None:
            members = ", ".join(self.journal.trial.parent_ids(Role.MEMBER))
            reason = f" (it evaluates those of {members})" if members else ""
            raise TrialError(
                f"the store {self.store.uri} has no weights of trial {self.id}{reason}. Only "
                f"training trials outside a search save some. If they were lost: {remake(self.id)}"
            )


def check_same_text(subjects: Sequence[Subject]) -> None:
    """Refuse trials of different texts, whose words cannot be compared."""
    first, *others = subjects
    for other in others:
        if other.corpus.digest != first.corpus.digest:
            raise CombinationError(
                f"trials {first.id} and {other.id} have read different texts "
                f"({first.corpus.name} {first.corpus.digest}, {other.corpus.name} "
                f"{other.corpus.digest}). Instead: trials of the same text."
            )


def distinct_names(subjects: Sequence[Subject]) -> list[str]:
    """The trials' display names, with their ids if two names are equal."""
    names = [subject.name for subject in subjects]
    if len(set(names)) == len(names):
        return names
    return [f"{subject.name} ({subject.id[:6]})" for subject in subjects]


KINDS = {"word": "words", "byte": "bytes", "bpe": "byte-pair tokens"}


def _kind(subject: Subject) -> str:
    return KINDS.get(subject.corpus.level, "characters")
