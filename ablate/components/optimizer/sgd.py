"""Gradient descent, with or without momentum, whose rate falls by one of three schedules.

    v = mu v + gradient,    w -= rate * v        mu = momentum, or 1 - tokens_per_update / tokens

rate of epoch e (from 0) = learning_rate / decay^max(e - flat_epochs, 0)        Zaremba's script
                           learning_rate / decay^max(e + 1 - flat_epochs, 0)    TensorFlow's

The schedule "validation" makes such a division only after an epoch whose validation was no better
than the epoch's before (Pachitariu & Sahani 2013, Section 4; the text has it the other way round).
Under "inverse_sqrt_epoch" the rate is learning_rate / sqrt(e + 1) instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ablate.components.optimizer import (
    Optimizer,
    Saved,
    parameter_groups,
    restore_state,
    saved_state,
    set_rate,
)
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class SgdConfig:
    """The rate and its schedule. A decay of 1 keeps it."""

    learning_rate: float = setting(1.0, doc="rate of the first epochs", low=0)
    weight_decay: float = setting(0.0, doc="L2 in the gradient, of all parameters", low=0)
    decay: float = setting(1.0, doc="the rate is divided by this after every later epoch", low=1)
    flat_epochs: int = setting(0, doc="epochs before the rate falls", low=0)
    counting: str = setting(
        "zaremba",
        doc="the first lower rate is in epoch flat + 2 (Zaremba's) or flat + 1 (TensorFlow's)",
        choices=("zaremba", "tensorflow"),
    )
    schedule: str = setting(
        "epoch",
        doc="after every epoch divided by decay, or where validation says so; or by sqrt(epoch)",
        choices=("epoch", "validation", "inverse_sqrt_epoch"),
    )
    validation: str = setting(
        "not_better",
        doc="schedule 'validation' divides if it was not better than an epoch ago, or if it was",
        choices=("not_better", "better"),
    )
    momentum: float = setting(0.0, doc="share of the last step in the next", low=0, high=0.999999)
    momentum_tokens: float | None = setting(
        None, doc="momentum as the tokens that a step averages over (001: a million)", low=1
    )


def divisions_due(config: SgdConfig, epoch: int) -> int:
    """How many divisions the rate of epoch `epoch`, counted from 0, would have had by now."""
    ahead = 1 if config.counting == "tensorflow" else 0
    return max(epoch + ahead - config.flat_epochs, 0)


def rate_in_epoch(config: SgdConfig, epoch: int, withheld: int = 0) -> float:
    """The rate in epoch `epoch`, counted from 0, if validation has withheld so many divisions."""
    if config.schedule == "inverse_sqrt_epoch":
        return config.learning_rate / (epoch + 1) ** 0.5
    return config.learning_rate / config.decay ** (divisions_due(config, epoch) - withheld)


def momentum_of(tokens: float, tokens_per_update: int) -> float:
    """The momentum at which steps average the gradients of so many tokens: 1/(1 - mu) updates."""
    if tokens < tokens_per_update:
        raise CombinationError(
            f"optimizer.momentum_tokens = {tokens:g} is not allowed: one update has "
            f"{tokens_per_update} tokens (training.batch_size * training.window). Allowed: a "
            "number at least as large; none: no momentum."
        )
    return 1 - tokens_per_update / tokens


@register(
    "optimizer",
    "sgd",
    config=SgdConfig,
    paper="zaremba2014",
    equation="Section 4.1",
    departures=(
        "schedule 'validation' divides after epochs that were not better, where pachitariu2013irlm "
        "prints that the validation cost decreased; validation = 'better' is the text's",
        "momentum adds gradients up (torch's), so that a step is 1/(1 - mu) times the rate",
    ),
)
@final
class Sgd(Optimizer):
    """torch's SGD."""

    def __init__(self, config: SgdConfig, model: nn.Module) -> None:
        if config.momentum and config.momentum_tokens is not None:
            raise CombinationError(
                f"optimizer.momentum = {config.momentum:g} and optimizer.momentum_tokens = "
                f"{config.momentum_tokens:g} say the same twice. Allowed: one of them."
            )
        self.config = config
        self.epochs_done = 0
        self.withheld = divisions_due(config, 0) if config.schedule == "validation" else 0
        self.last_valid: float | None = None
        self.torch = torch.optim.SGD(
            parameter_groups(model),
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
        )

    def prepare(self, tokens_per_update: int) -> None:
        if self.config.momentum_tokens is not None:
            for group in self.torch.param_groups:
                group["momentum"] = momentum_of(self.config.momentum_tokens, tokens_per_update)

    @property
    def rate(self) -> float:
        return rate_in_epoch(self.config, self.epochs_done, self.withheld)

    def step(self, scale: float = 1.0) -> None:
        set_rate(self.torch, self.rate * scale)
        self.torch.step()

    def epoch_ended(self, epoch: int, valid_nll: float) -> str | None:
        before = self.rate
        if not self._may_divide(valid_nll):
            due = [divisions_due(self.config, e) for e in (epoch - 1, epoch)]
            self.withheld += due[1] - due[0]
        self.epochs_done, self.last_valid = epoch, valid_nll
        return None if self.rate == before else f"learning rate {before:.6g} -> {self.rate:.6g}"

    def _may_divide(self, valid_nll: float) -> bool:
        """Whether an epoch that ends with this validation may divide the rate."""
        if self.config.schedule != "validation":
            return True
        if self.last_valid is None:
            return False
        return (valid_nll < self.last_valid) == (self.config.validation == "better")

    def saved(self) -> Saved:
        names = ("epochs_done", "withheld", "last_valid")
        return saved_state(self.torch), {name: getattr(self, name) for name in names}

    def restore(self, tensors: dict[str, Tensor], plain: dict) -> None:
        for name, value in plain.items():
            setattr(self, name, value)
        restore_state(self.torch, tensors)
