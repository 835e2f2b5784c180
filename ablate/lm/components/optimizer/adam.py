"""Adam: each weight's step is its mean gradient over the root of its mean squared gradient.

m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2      w -= rate * m^ / (sqrt(v^) + epsilon)

where ^ divides by 1 - b^t. With beta1 = 0, Adam is RMSProp with a correction for the start of v, as
Melis et al. (2018) use it. With a larger epsilon, weights whose gradients are small and rare (those
of rare words) move as in gradient descent at rate / epsilon, instead of as far as all other
weights.

The fields from `schedule` on are older than the slot `schedule`, which has more; they are read as
its `inverse_sqrt`, `halving` ("decay") and `plateau` ("patience").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from ablate.lm.components import Optimizer, register, setting
from ablate.lm.model.optimizer import parameter_groups
from ablate.lm.model.schedule import OwnSchedule


@dataclass(frozen=True, kw_only=True)
class AdamConfig:
    """The learning rate, the two decays, and the schedule."""

    learning_rate: float = setting(0.001, doc="learning rate, before any schedule", low=0)
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

    @property
    def own_schedule(self) -> OwnSchedule:
        """The schedule that these fields describe."""
        halving = {"divisor": self.decay, "flat_epochs": self.flat_epochs, "when": "epoch"}
        waiting = {"patience": self.patience, "first_drop": self.first_drop}
        return {
            "constant": None,
            "inverse_sqrt_epoch": ("inverse_sqrt", {}),
            "decay": ("halving", halving),
            "patience": ("plateau", {"divisor": self.decay, **waiting}),
        }[self.schedule]


@register("optimizer", "adam", config=AdamConfig, paper="kingma2015adam", equation="Algorithm 1")
@final
class Adam(Optimizer):
    """torch's Adam, each step in one pass over the parameters."""

    def __init__(self, config: AdamConfig, model: nn.Module) -> None:
        self.config = config
        self.torch = torch.optim.Adam(
            parameter_groups(model),
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            fused=True,  # a ninth of the time of torch's usual step on a CPU (docs/notes/log.md)
        )

    @classmethod
    def width_power(cls, config: AdamConfig) -> float | None:
        return 1.0
