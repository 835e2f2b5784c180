"""What a trial does, as `ablate/trial.py` drives it: in slices, from a state it can save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from ablate.store import Store


@dataclass(frozen=True)
class Place:
    """Where a trial finds what it needs: other trials' weights, and encoded corpora."""

    store: Store
    data: str


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What a finished task has found."""

    metrics: Mapping[str, float]
    num_parameters: int
    digest: str  # of every bit of the weights
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    token_log_probs: Mapping[str, np.ndarray] = field(default_factory=dict)  # by split


class Diverged(Exception):
    """The loss is no longer a number."""


class AtOnce:
    """The part of a `Task` that trains nothing and only concludes: it begins again if it is cut."""

    finished = True

    def advance(self, seconds: float) -> dict[str, Any] | None:
        return None

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {}

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Nothing is carried over."""


class Task(Protocol):
    """Built as `Task(trial, place)` by the name in `Trial.runner`."""

    def advance(self, seconds: float) -> dict[str, Any] | None:
        """Work for about so long, or to the end of an epoch; then its metrics, else None."""
        ...

    @property
    def finished(self) -> bool:
        """Whether there is nothing left but to conclude."""
        ...

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All state, as tensors and plain data."""
        ...

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Take up the state that `saved` gave, to continue to the same bits."""
        ...

    def conclude(self) -> Conclusion:
        """Judge what was reached."""
        ...
