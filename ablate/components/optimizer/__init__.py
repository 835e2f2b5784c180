"""Optimizers with their schedules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Saved = tuple[dict[str, Tensor], dict]  # tensors by name, and plain data for JSON
COUNTERS = ("step", "mu_product")  # of a parameter's state: torch keeps them on the CPU


class Optimizer(ABC):
    """Built as `Optimizer(config, model)`, over the parameters that require a gradient."""

    def prepare(self, tokens_per_update: int) -> None:  # noqa: B027 (few need it)
        """Told once, before the first update, how many tokens a whole window has."""

    @abstractmethod
    def step(self, scale: float = 1.0) -> None:
        """One update from the gradients there are, at `scale` times the rate."""

    @abstractmethod
    def epoch_ended(self, epoch: int, valid_nll: float) -> str | None:
        """Adapt to epoch `epoch` (from 1) and its validation; says what changed, for the log."""

    @property
    @abstractmethod
    def rate(self) -> float:
        """The learning rate now."""

    @contextmanager
    def evaluated_weights(self, model: nn.Module) -> Iterator[None]:
        """Inside, the model has the weights to be judged and kept (averaged ones, say)."""
        yield

    @abstractmethod
    def saved(self) -> Saved:
        """All state, from which `restore` continues to the same bits."""

    @abstractmethod
    def restore(self, tensors: dict[str, Tensor], plain: dict) -> None:
        """Take up the state that `saved` gave."""


def parameter_groups(model: nn.Module) -> list[dict]:
    """The parameters that are trained, grouped for torch by the share of the rate they take.

    A technique gives a parameter another share than 1 by setting its `rate_scale` (IRLM's
    recurrent weights take a thousandth).
    """
    by_scale: dict[float, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            by_scale.setdefault(getattr(parameter, "rate_scale", 1.0), []).append(parameter)
    return [{"params": found, "rate_scale": scale} for scale, found in by_scale.items()]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group its share of a rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate_scale"]


def saved_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """A copy of what torch keeps for each parameter, by the parameter's number and its name."""
    return {
        f"{index}.{name}": value.clone()
        for index, parameter in enumerate(_parameters(optimizer))
        for name, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def restore_state(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """`saved_state` undone. torch's own way would move a counter to another device or type."""
    parameters = _parameters(optimizer)
    for path, value in tensors.items():
        index, _, name = path.partition(".")
        kept = value.cpu() if name in COUNTERS else value
        optimizer.state[parameters[int(index)]][name] = kept.clone()


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
