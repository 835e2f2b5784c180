"""Reading pairs of sentences: batches of similar lengths, in a new order every epoch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ablate.config.identity import Trial
from ablate.config.streams import Streams
from ablate.lm.model.flow import PairText, State
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.sentences import forced, lengths_of, pair_batch, pairs_nll, shuffled
from ablate.lm.sections import PairTrainingConfig
from ablate.lm.training.updates import Part, Update


class Pairs:
    """A `Reader` of a corpus of pairs."""

    def __init__(self, trial: Trial, text: PairText, streams: Streams) -> None:
        self.config: PairTrainingConfig = trial.config.sections["training"]
        self.text, self.streams, self.device = text, streams, trial.device
        self.source, self.target = text.sentences("train")

    @property
    def num_updates(self) -> int:
        """The number of batches in the epoch."""
        return len(self.batches)

    def updates_in(self, epoch: int) -> int:
        """Return the number of batches, which is the same in all epochs."""
        # Rounded up: the last batch may be smaller.
        return -(-(len(self.target.starts_P1) - 1) // self.config.batch_size)

    @property
    def steps(self) -> int:
        """The tokens of an average target sentence."""
        return len(self.target.tokens_N) // (len(self.target.starts_P1) - 1)

    @property
    def tokens_per_update(self) -> int:
        """The target tokens of an average batch."""
        pairs = len(self.target.starts_P1) - 1
        return self.config.batch_size * len(self.target.tokens_N) // pairs

    def begin_epoch(self, epoch: int, model: LanguageModel) -> None:
        """Shuffle the pairs of the epoch into batches of similar lengths."""
        # A processor's generator even for a GPU: lengths and batches are on the processor.
        drawn = self.streams.python("pairs", epoch).getrandbits(63)
        generator = torch.Generator().manual_seed(drawn)
        self.batches = shuffled(lengths_of(self.target), self.config.batch_size, generator)

    def update(self, number: int, model: LanguageModel) -> Update:
        """Return a batch, in parts that fit the memory."""
        chosen = self.batches[number]
        spans = chosen.chunk(self.config.accumulate)
        parts = [self._part(rows, len(chosen), model) for rows in spans]
        tokens = sum(len(part.targets_N) for part in parts)
        averaged = tokens if self.config.loss_reduction == "mean" else len(chosen)
        return Update(parts, 1 / averaged, rate=1.0, ended=_nothing, num_tokens=tokens)

    def _part(self, rows: Tensor, num_rows: int, model: LanguageModel) -> Part:
        batch = pair_batch(self.source, self.target, rows, int(self.text.eos or 0), self.device)
        return Part(
            share=len(rows) / num_rows,
            targets_N=batch.targets_N,
            run=lambda masks: forced(model, batch, masks),
        )

    def valid_nll(self, model: LanguageModel) -> float:
        """Return the model's loss on valid, in nats per token."""
        return pairs_nll(model, self.text, "valid", self.config.valid_batch_size)

    def saved(self) -> dict[str, Tensor]:
        """Return nothing: an epoch's batches are drawn again from its seed."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Do nothing: no state is carried from one sentence to the next."""


def _nothing(states: list[State]) -> None:
    """Nothing is carried from one batch to the next."""
