"""Adam, with a rate that may fall by the epoch.

m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2      w -= rate * m^ / (sqrt(v^) + epsilon)

where ^ divides by 1 - b^t. The rate of epoch e, counted from 1, is one of

    learning_rate    learning_rate / sqrt(e)    learning_rate / decay^max(e - flat_epochs, 0)

IOG (takase2017iog, Table 1) trains its gate by the second. With a larger epsilon, weights whose
gradients are small and rare (those of rare words) move as by gradient descent at rate / epsilon,
instead of as far as all others.
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
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class AdamConfig:
    """The rate, the two decays, and how the rate falls."""

    learning_rate: float = setting(0.001, doc="rate of the first epoch", low=0)
    beta1: float = setting(0.9, doc="decay of the mean gradient", low=0, high=0.9999)
    beta2: float = setting(0.999, doc="decay of the mean squared gradient", low=0, high=0.99999)
    epsilon: float = setting(1e-8, doc="added to the root of the mean square", low=0)
    weight_decay: float = setting(0.0, doc="L2 in the gradient, of all parameters", low=0)
    schedule: str = setting(
        "constant",
        doc="how the rate of epoch e (from 1) falls, if it does",
        choices=("constant", "inverse_sqrt_epoch", "decay"),
    )
    decay: float = setting(
        2.0, doc="under 'decay', divides the rate before every later epoch", low=1
    )
    flat_epochs: int = setting(0, doc="under 'decay', epochs at the first rate", low=0)


def rate_in_epoch(config: AdamConfig, epoch: int) -> float:
    """The rate in epoch `epoch`, counted from 1."""
    divisor = {
        "constant": 1.0,
        "inverse_sqrt_epoch": epoch**0.5,
        "decay": config.decay ** max(epoch - config.flat_epochs, 0),
    }
    return config.learning_rate / divisor[config.schedule]


@register("optimizer", "adam", config=AdamConfig, paper="kingma2015adam", equation="Algorithm 1")
@final
class Adam(Optimizer):
    """torch's Adam, each step in one pass over the parameters."""

    def __init__(self, config: AdamConfig, model: nn.Module) -> None:
        self.config = config
        self.epochs_done = 0
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
        return rate_in_epoch(self.config, self.epochs_done + 1)

    def step(self, scale: float = 1.0) -> None:
        set_rate(self.torch, self.rate * scale)
        self.torch.step()

    def epoch_ended(self, epoch: int, valid_nll: float) -> str | None:
        self.epochs_done = epoch
        return None

    def saved(self) -> Saved:
        return saved_state(self.torch), {"epochs_done": self.epochs_done}

    def restore(self, tensors: dict[str, Tensor], plain: dict) -> None:
        self.epochs_done = plain["epochs_done"]
        restore_state(self.torch, tensors)
