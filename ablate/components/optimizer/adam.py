"""Adam, with a learning rate that may fall from epoch to epoch.

m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2      w -= rate * m^ / (sqrt(v^) + epsilon)

where ^ divides by 1 - b^t. The rate of epoch e, counted from 1, is one of

    learning_rate    learning_rate / sqrt(e)    learning_rate / decay^max(e - flat_epochs, 0)
    learning_rate / decay^drops

With the last, "patience", the rate drops after `patience` epochs without a new best on validation,
counted from the best or from the last drop, whichever is later, and for the first time after epoch
`first_drop` at the latest (Melis et al. 2018, by their code). With beta1 = 0, Adam is RMSProp with
a correction for the start of v, as they use it.

IOG (takase2017iog, Table 1) trains its gate with the second schedule. With a larger epsilon,
weights whose gradients are small and rare (those of rare words) move as in gradient descent at
rate / epsilon, instead of as far as all other weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from ablate.components import Optimizer, register, setting
from ablate.model.optimizer import epochs_without_best, parameter_groups


@dataclass(frozen=True, kw_only=True)
class AdamConfig:
    """The learning rate, the two decays, and the schedule."""

    learning_rate: float = setting(0.001, doc="learning rate of the first epoch", low=0)
    beta1: float = setting(0.9, doc="decay of the mean gradient", low=0, high=0.9999)
    beta2: float = setting(0.999, doc="decay of the mean squared gradient", low=0, high=0.99999)
    epsilon: float = setting(1e-8, doc="added to the root of the mean square", low=0)
    weight_decay: float = setting(0.0, doc="L2 in the gradient, for all parameters", low=0)
    schedule: str = setting(
        "constant",
        doc="how the learning rate of epoch e (from 1) falls, if at all",
        choices=("constant", "inverse_sqrt_epoch", "decay", "patience"),
    )
    decay: float = setting(
        2.0,
        doc="the rate is divided by this before every later epoch ('decay'), or at every drop "
        "('patience')",
        low=1,
    )
    flat_epochs: int = setting(0, doc="with 'decay', epochs at the first rate", low=0)
    patience: int = setting(
        10, doc="with 'patience', epochs without a new best on validation before a drop", low=1
    )
    first_drop: int | None = setting(
        None, doc="with 'patience', the first drop comes after this epoch at the latest", low=1
    )


def rate_in_epoch(config: AdamConfig, epoch: int, drops: int = 0) -> float:
    """The rate in epoch `epoch`, counted from 1, after that many drops."""
    divisor = {
        "constant": 1.0,
        "inverse_sqrt_epoch": epoch**0.5,
        "decay": config.decay ** max(epoch - config.flat_epochs, 0),
        "patience": config.decay**drops,
    }
    return config.learning_rate / divisor[config.schedule]


@register("optimizer", "adam", config=AdamConfig, paper="kingma2015adam", equation="Algorithm 1")
@final
class Adam(Optimizer):
    """torch's Adam, each step in one pass over the parameters."""

    counters = ("epochs_done", "history", "drops")

    def __init__(self, config: AdamConfig, model: nn.Module) -> None:
        self.config = config
        self.epochs_done = 0
        self.history: list[float] = []  # validation losses, if the schedule needs them
        self.drops: list[int] = []  # the epochs after which the rate dropped
        self.torch = torch.optim.Adam(
            parameter_groups(model),
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            fused=True,
        )

    @property
    def rate(self) -> float:
        return rate_in_epoch(self.config, self.epochs_done + 1, len(self.drops))

    def epoch_ended(self, epoch: int, valid_nll: float) -> str | None:
        self.epochs_done = epoch
        if self.config.schedule != "patience":
            return None
        before = self.rate
        self.history = [*self.history, valid_nll]
        if not self._drops():
            return None
        self.drops = [*self.drops, len(self.history)]
        return f"learning rate {before:.6g} -> {self.rate:.6g}"

    def _drops(self) -> bool:
        """Return whether the rate drops after the last epoch of the history."""
        latest, num_epochs = self.config.first_drop, len(self.history)
        if not self.drops and latest is not None and num_epochs >= latest:
            return True
        since = self.drops[-1] if self.drops else 0
        return epochs_without_best(self.history, since) >= self.config.patience
