"""What a trial does: `ablate/trial/run.py` runs it in slices and can save its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ablate.config.identity import Trial
from ablate.config.metrics import Metric
from ablate.config.tensors import Tensor
from ablate.errors import TrialError
from ablate.store.store import Store


@dataclass(frozen=True)
class Place:
    """The store and the data folder of a trial: other trials' weights, and encoded corpora."""

    store: Store
    data: str
    code: Mapping[str, str] = field(default_factory=dict)  # path of a module -> its path here


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """The result of a finished task."""

    metrics: Mapping[str, float]
    num_parameters: int | None
    digest: str  # of every bit of the weights
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    token_log_probs: Mapping[str, np.ndarray] = field(default_factory=dict)  # by split
    sentences: Mapping[str, Sequence[str]] = field(default_factory=dict)  # written, by split
    signatures: Mapping[str, str] = field(default_factory=dict)  # of what computed a metric
    files: Mapping[str, bytes] = field(default_factory=dict)  # of `run.folder`, by name
    seconds: float | None = None  # that the task took, if it has no epochs to say so


def splits_of(trial: Trial) -> tuple[str, ...]:
    """The splits on which the trial is evaluated."""
    return ("valid", "test") if trial.reads_test else ("valid",)


class Diverged(Exception):
    """The loss is no longer a number."""


class AtOnce:
    """Base of a `Task` that trains nothing and only concludes; restarted if interrupted."""

    finished = True

    def advance(self, seconds: float) -> dict[str, Any] | None:
        """Return no epoch: the whole task is its conclusion."""
        return None

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return nothing: a task without epochs starts again."""
        return {}, {}

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Do nothing: there is no state."""


def check_epoch(epoch: Any, runner: str) -> None:
    """Refuse a result of a task's `advance` that is not an epoch."""
    number = epoch.get("epoch") if isinstance(epoch, Mapping) else None
    if type(number) is not int:  # isinstance would take True for epoch 1
        shown = _names(epoch) if isinstance(epoch, Mapping) else repr(epoch)
        raise TrialError(
            f"runner {runner}: advance() ended an epoch without its number. Given: {shown}. "
            "Expected: None, or a dict with 'epoch', the number of epochs so far."
        )


def check_conclusion(conclusion: Conclusion, trial: Trial) -> None:
    """Refuse a conclusion that no table and no search could use."""
    key = trial.config.metrics[0].key("valid")
    if key not in conclusion.metrics:
        raise TrialError(
            f"runner {trial.runner}: conclude() gave no metric '{key}', which tables compare and "
            f"searches optimize. Given: {_names(conclusion.metrics)}."
        )


def validation_of(epoch: Mapping[str, Any], metric: Metric, runner: str) -> float:
    """The validation loss of an epoch, for an early-stopping rule."""
    key = metric.key("valid")
    if key not in epoch:
        raise TrialError(
            f"runner {runner}: an epoch ended without '{key}', which the search needs to stop "
            f"trials early. Given: {_names(epoch)}. Instead: report it with every "
            "epoch, or search without early_stopping."
        )
    return metric.loss(epoch[key])


def _names(metrics: Mapping[str, Any]) -> str:
    return ", ".join(map(str, metrics)) or "nothing"


class Task(Protocol):
    """Built as `Task(trial, place)` by the name in `Trial.runner`.

    A task whose slices end within an epoch may have `epoch_share`, the share of the epoch that is
    done, from 0 to 1: the time left is then known before the first epoch ends.
    """

    def advance(self, seconds: float) -> dict[str, Any] | None:
        """Work for about `seconds`, or to the end of an epoch; return its metrics if one ended.

        The metrics have "epoch", the number of epochs so far, and the validation metric if a search
        stops trials early.
        """
        ...

    @property
    def finished(self) -> bool:
        """Return whether only `conclude` is left."""
        ...

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The whole state, as tensors and plain data; None if the task cannot resume."""
        ...

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Restore a state from `saved`, to continue with the same bits."""
        ...

    def conclude(self) -> Conclusion:
        """Evaluate the result; its metrics must have the task's first one on `valid`, and also on
        `test` if the trial reads it."""
        ...
