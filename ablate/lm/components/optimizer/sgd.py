"""Gradient descent, with or without momentum.

    v = mu v + gradient,    w -= rate * v        mu = momentum, or 1 - tokens_per_update / tokens

The fields from `decay` to `least_fall` are older than the slot `schedule`, which has more; they are
read as its `halving` and `inverse_sqrt`. The rate of epoch e (from 0) is

    learning_rate / decay^max(e - flat_epochs, 0)        Zaremba's script
    learning_rate / decay^max(e + 1 - flat_epochs, 0)    TensorFlow's

The schedule "validation" divides only after an epoch whose validation loss was no better than that
of the epoch before (Pachitariu & Sahani 2013, Section 4; the text has it the other way round).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from ablate.lm.components import CombinationError, Optimizer, register, setting
from ablate.lm.model.optimizer import decayed_alike, parameter_groups
from ablate.lm.model.schedule import OwnSchedule


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

    @property
    def own_schedule(self) -> OwnSchedule:
        """The schedule that these fields describe."""
        if self.schedule == "inverse_sqrt_epoch":
            return "inverse_sqrt", {}
        if self.decay == 1:
            return None
        when = self.validation if self.schedule == "validation" else "epoch"
        # Zaremba's rate falls one epoch later than TensorFlow's.
        flat = self.flat_epochs + (self.counting == "zaremba")
        values = {"divisor": self.decay, "flat_epochs": flat, "when": when}
        return "halving", {**values, "least_fall": self.least_fall}


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

    follows_gradients = True

    def __init__(self, config: SgdConfig, model: nn.Module) -> None:
        if config.momentum and config.momentum_tokens is not None:
            raise CombinationError(
                f"optimizer.momentum = {config.momentum:g} and optimizer.momentum_tokens = "
                f"{config.momentum_tokens:g} both set the momentum. Instead: only one of the two."
            )
        self.config = config
        self.torch = torch.optim.SGD(
            decayed_alike(parameter_groups(model), config.weight_decay),
            lr=config.learning_rate,
            momentum=config.momentum,
        )

    @classmethod
    def width_power(cls, config: SgdConfig) -> float | None:
        return 0.0

    def prepare(self, tokens_per_update: int) -> None:
        if self.config.momentum_tokens is not None:
            for group in self.torch.param_groups:
                group["momentum"] = momentum_of(self.config.momentum_tokens, tokens_per_update)
