"""What an analysis may ask of a finished trial."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ablate.assemble import assemble
from ablate.config import Config, resolve
from ablate.data.corpus import Corpus, open_corpus
from ablate.errors import CombinationError, TrialError
from ablate.journal import COMPLETED, Journal
from ablate.model import LanguageModel
from ablate.store import Store
from ablate.train.checkpoint import read_weights
from ablate.trial import load_modules


@dataclass(frozen=True)
class Subject:
    """A completed trial; its weights and tokens are read when they are asked for."""

    journal: Journal
    store: Store
    data: str

    @cached_property
    def config(self) -> Config:
        load_modules(self.journal.trial.modules)
        return resolve(self.journal.trial.values)

    @cached_property
    def corpus(self) -> Corpus:
        return open_corpus(self.config.corpus, self.data)

    @cached_property
    def model(self) -> LanguageModel:
        """The weights it was judged by, in evaluation."""
        model = assemble(self.config, self.corpus.num_words, text=self.corpus).model
        model.load_state_dict(read_weights(self.store, self.journal.trial.id))
        return model.eval()

    @property
    def name(self) -> str:
        trial = self.journal.trial
        return f"{trial.arm}, seed {trial.seed}" if trial.arm else trial.id

    def log_probs(self, split: str) -> np.ndarray:
        """log p of every token of a split but the first, as it was kept."""
        import pyarrow as pa

        data = self.store.read(f"trials/{self.journal.trial.id}/tokens/{split}.arrow")
        if data is None:
            raise TrialError(
                f"trial {self.journal.trial.id} kept no log-probabilities of {split}: it did not "
                "read that split. Allowed: valid, and test of a trial that is an arm's last."
            )
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            return reader.read_all()["log_prob"].to_numpy().astype(np.float64)

    def require(self, slot: str, *names: str) -> None:
        """Refuse a trial whose technique for a slot is another than the analysis is about."""
        found = self.config[slot].name
        if found not in names:
            raise CombinationError(
                f"trial {self.journal.trial.id} has {slot} = '{found}', and this analysis is "
                f"about {' or '.join(names)}."
            )


def subject(journal: Journal, store: Store, data: str) -> Subject:
    """The subject of a journal, which must be of a completed trial."""
    if journal.status != COMPLETED:
        raise TrialError(f"trial {journal.trial.id} has not completed: it is {journal.status}.")
    return Subject(journal, store, data)
