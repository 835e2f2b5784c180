"""Adagrad: each weight's step shrinks with the squares of all its gradients so far.

s += g^2,    w -= rate * g / (sqrt(s) + epsilon)          (Duchi, Hazan and Singer 2011)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from ablate.lm.components import Optimizer, register, setting
from ablate.lm.model.optimizer import parameter_groups


@dataclass(frozen=True, kw_only=True)
class AdagradConfig:
    """The learning rate, and where the sums of squares start."""

    learning_rate: float = setting(0.1, doc="learning rate", low=0)
    initial_sum: float = setting(0.0, doc="where the sums of squared gradients start", low=0)
    epsilon: float = setting(1e-10, doc="added to the root of the sum", low=0)
    weight_decay: float = setting(0.0, doc="L2 in the gradient, for all parameters", low=0)


@register(
    "optimizer", "adagrad", config=AdagradConfig, paper="duchi2011adagrad", equation="Figure 1"
)
@final
class Adagrad(Optimizer):
    """torch's Adagrad, with the diagonal of the paper's matrix alone."""

    def __init__(self, config: AdagradConfig, model: nn.Module) -> None:
        self.config = config
        self.torch = torch.optim.Adagrad(
            parameter_groups(model),
            lr=config.learning_rate,
            initial_accumulator_value=config.initial_sum,
            eps=config.epsilon,
            weight_decay=config.weight_decay,
        )

    @classmethod
    def width_power(cls, config: AdagradConfig) -> float | None:
        return 1.0
