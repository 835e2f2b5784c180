"""What a training reads: the batches of an epoch, update by update.

`Stream` (`stream.py`) reads windows of one text, and `Pairs` (`sentence_pairs.py`) batches
of sentence pairs. The loop in `training.py` knows neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from ablate.lm.model.flow import Pass, State
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.masks import Masks


@dataclass(frozen=True)
class Part:
    """A share of an update's rows, whose gradients are added up."""

    share: float  # of the update's rows
    targets_N: Tensor
    run: Callable[[Masks], Pass]  # a forward pass
    read: tuple[Tensor, ...] = ()  # a window's tokens and the state before it; of sentences: none


@dataclass(frozen=True)
class Update:
    """One update: its parts, and how their losses count."""

    parts: list[Part]
    per_token: float  # multiplies the loss, which is summed over tokens
    rate: float  # multiplies the learning rate
    ended: Callable[[list[State]], None]  # gets the state after each part
    num_tokens: int


class Reader(Protocol):
    """Reads the training text of a trial, and validates on another."""

    @property
    def num_updates(self) -> int:
        """The number of updates of the epoch."""
        ...

    def updates_in(self, epoch: int) -> int:
        """The number of updates in an epoch, which need not have begun."""
        ...

    @property
    def steps(self) -> int:
        """How many tokens a model reads one after the other, about."""
        ...

    @property
    def tokens_per_update(self) -> int:
        """How many tokens an update has, about."""
        ...

    def begin_epoch(self, epoch: int, model: LanguageModel) -> None:
        """Prepare an epoch's updates."""

    def update(self, number: int, model: LanguageModel) -> Update:
        """An update of the epoch, by its number."""
        ...

    def valid_nll(self, model: LanguageModel) -> float:
        """Mean nats per token of the validation text."""
        ...

    def saved(self) -> dict[str, Tensor]:
        """The state that the next update needs."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over the tensors of `saved`."""
