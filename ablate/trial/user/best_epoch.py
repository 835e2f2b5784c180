"""The best epoch of a task's training on validation: its numbers, and a copy of what it had made.

    for epoch in run.epochs(model, optimizer, total=100, best=True, patience=5): ...

The copy is a part of the trial's checkpoint, so that a resumed trial stops at the same epoch, with
the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ablate.config.metrics import Metric
from ablate.config.tensors import Tensor
from ablate.errors import TrialError, unknown, wrong_value
from ablate.trial.user.plain_state import join, load_state, read_state, split

PREFIX = "best."  # of the copy's tensors in a checkpoint


class BestEpoch:
    """The best epoch so far. Optimizers are not copied: they end with the training."""

    def __init__(self, metric: Metric, patience: int | None) -> None:
        self.metric, self.patience = metric, patience
        self.epoch: int | None = None
        self.numbers: dict[str, float] = {}
        self._loss = float("inf")
        self._states: list[Any] = []  # of each object that `run.epochs` was given
        self._tensors: dict[str, Tensor] = {}

    def look(
        self,
        epoch: int,
        numbers: Mapping[str, float],
        saved: Sequence[Any],
        first: Sequence[Sequence[Any]],
    ) -> None:
        """Take in an epoch's numbers; copy the state of the objects if it is the best so far."""
        key = self.metric.key("valid")
        if key not in numbers:
            raise TrialError(
                f"run.epochs(best=...) needs '{key}' at every yield. Given: "
                f"{', '.join(numbers) or 'nothing'}."
            )
        loss = self.metric.loss(numbers[key])
        if loss < self._loss:
            self.epoch, self._loss, self.numbers = epoch, loss, dict(numbers)
            self._tensors = {}
            self._states = [
                None if is_optimizer(thing) else split(read_state(thing), self._tensors, own)
                for thing, own in zip(saved, first, strict=True)
            ]

    def is_over(self, epoch: int) -> bool:
        """Return whether the last epochs, `patience` of them, were no better than the best."""
        waited = epoch - (self.epoch or 0)
        return self.patience is not None and waited >= self.patience

    def put_back(self, saved: Sequence[Any], first: Sequence[Sequence[Any]]) -> None:
        """Give the objects the state that they had after the best epoch."""
        if self.epoch is None:
            return
        for thing, own, state in zip(saved, first, self._states, strict=True):
            if not is_optimizer(thing):
                joined = join(state, self._tensors, own)
                if joined is not thing:  # else it is a dict, and has been filled in place
                    load_state(thing, joined)

    def to_plain(self, tensors: dict[str, Tensor]) -> dict[str, Any]:
        """Return it as JSON, and add its tensors to those of a checkpoint."""
        tensors |= {f"{PREFIX}{name}": tensor for name, tensor in self._tensors.items()}
        return {"epoch": self.epoch, "numbers": self.numbers, "states": self._states}

    def restore(self, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Take over what `to_plain` returned."""
        self.epoch, self.numbers, self._states = plain["epoch"], plain["numbers"], plain["states"]
        value = self.numbers.get(self.metric.key("valid"))
        self._loss = float("inf") if value is None else self.metric.loss(value)
        named = ((name, tensor) for name, tensor in tensors.items() if name.startswith(PREFIX))
        self._tensors = {name.removeprefix(PREFIX): tensor for name, tensor in named}


def best_epoch(
    best: bool | str, patience: int | None, metrics: Sequence[Metric]
) -> BestEpoch | None:
    """What `run.epochs` is asked to remember: nothing, or the best epoch by one of the metrics."""
    if patience is not None and (type(patience) is not int or patience < 1):
        raise TrialError(wrong_value("patience", patience, "a whole number from 1 on"))
    if not best and patience is None:
        return None
    by_name = {metric.name: metric for metric in metrics}
    if not isinstance(best, str):
        return BestEpoch(metrics[0], patience)
    if best not in by_name:
        raise TrialError(unknown("metric", best, by_name, "run.epochs(best=...)"))
    return BestEpoch(by_name[best], patience)


def is_optimizer(thing: Any) -> bool:
    """Return whether it is an optimizer of torch, or looks like one."""
    return hasattr(thing, "param_groups")
