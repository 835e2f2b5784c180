"""Gradient descent, with or without momentum, and three schedules for its learning rate.

    v = mu v + gradient,    w -= rate * v        mu = momentum, or 1 - tokens_per_update / tokens

rate of epoch e (from 0) = learning_rate / decay^max(e - flat_epochs, 0)        Zaremba's script
                           learning_rate / decay^max(e + 1 - flat_epochs, 0)    TensorFlow's

The schedule "validation" divides only after an epoch whose validation loss was no better than that
of the epoch before (Pachitariu & Sahani 2013, Section 4; the text has it the other way round), or
whose perplexity fell by less than `least_fall` (Kim et al. 2016).
With "inverse_sqrt_epoch" the rate is learning_rate / sqrt(e + 1) instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from ablate.components import CombinationError, Optimizer, register, setting
from ablate.config.metrics import perplexity
from ablate.model.optimizer import parameter_groups


@dataclass(frozen=True, kw_only=True)
class SgdConfig:
    """The learning rate and its schedule. With a decay of 1 it is constant."""

    learning_rate: float = setting(1.0, doc="learning rate of the first epochs", low=0)
    weight_decay: float = setting(0.0, doc="L2 in the gradient, for all parameters", low=0)
    decay: float = setting(1.0, doc="the rate is divided by this after every later epoch", low=1)
    flat_epochs: int = setting(0, doc="epochs before the rate falls", low=0)
    counting: str = setting(
        "zaremba",
        doc="the rate first falls in epoch flat + 2 (Zaremba) or flat + 1 (TensorFlow)",
        choices=("zaremba", "tensorflow"),
    )
    schedule: str = setting(
        "epoch",
        doc="divide by decay after every epoch, or when validation requires it; or by sqrt(epoch)",
        choices=("epoch", "validation", "inverse_sqrt_epoch"),
    )
    validation: str = setting(
        "not_better",
        doc="with schedule 'validation': divide after an epoch that was not better, or better",
        choices=("not_better", "better"),
    )
    least_fall: float = setting(
        0.0,
        doc="with schedule 'validation': an epoch is better if perplexity fell by at least this",
        low=0,
    )
    momentum: float = setting(0.0, doc="share of the last step in the next", low=0, high=0.999999)
    momentum_tokens: float | None = setting(
        None, doc="momentum, as the number of tokens to average over (IRLM paper: a million)", low=1
    )


def divisions_due(config: SgdConfig, epoch: int) -> int:
    """The number of divisions due by epoch `epoch` (from 0)."""
    ahead = 1 if config.counting == "tensorflow" else 0
    return max(epoch + ahead - config.flat_epochs, 0)


def rate_in_epoch(config: SgdConfig, epoch: int, withheld: int = 0) -> float:
    """The rate in epoch `epoch` (from 0), after validation has withheld that many divisions."""
    if config.schedule == "inverse_sqrt_epoch":
        return config.learning_rate / (epoch + 1) ** 0.5
    return config.learning_rate / config.decay ** (divisions_due(config, epoch) - withheld)


def momentum_of(tokens: float, tokens_per_update: int) -> float:
    """The momentum that averages the gradients of N tokens, that is of 1/(1 - mu) updates."""
    if tokens < tokens_per_update:
        raise CombinationError(
            f"optimizer.momentum_tokens = {tokens:g} is too small: one update has "
            f"{tokens_per_update} tokens (training.batch_size * training.window). Instead: at "
            f"least {tokens_per_update}, or leave it out for no momentum."
        )
    return 1 - tokens_per_update / tokens


@register(
    "optimizer",
    "sgd",
    config=SgdConfig,
    paper="zaremba2014",
    equation="Section 4.1",
    departures=(
        "schedule 'validation' divides after epochs that were not better, while pachitariu2013irlm "
        "prints that the validation cost decreased; validation = 'better' follows the text",
        "momentum adds gradients up, as in torch, so a step is 1/(1 - mu) times the rate",
    ),
)
@final
class Sgd(Optimizer):
    """torch's SGD."""

    counters = ("epochs_done", "withheld", "last_valid")

    def __init__(self, config: SgdConfig, model: nn.Module) -> None:
        if config.momentum and config.momentum_tokens is not None:
            raise CombinationError(
                f"optimizer.momentum = {config.momentum:g} and optimizer.momentum_tokens = "
                f"{config.momentum_tokens:g} both set the momentum. Instead: only one of the two."
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

    def epoch_ended(self, epoch: int, valid_nll: float) -> str | None:
        before = self.rate
        if not self._may_divide(valid_nll):
            due = [divisions_due(self.config, e) for e in (epoch - 1, epoch)]
            self.withheld += due[1] - due[0]
        self.epochs_done, self.last_valid = epoch, valid_nll
        return None if self.rate == before else f"learning rate {before:.6g} -> {self.rate:.6g}"

    def _may_divide(self, valid_nll: float) -> bool:
        """Return whether the rate may be divided after an epoch with this validation loss."""
        if self.config.schedule != "validation":
            return True
        if self.last_valid is None:
            return False
        better = valid_nll < self.last_valid
        if self.config.least_fall:
            fall = perplexity(self.last_valid) - perplexity(valid_nll)
            better = fall >= self.config.least_fall
        return better == (self.config.validation == "better")
