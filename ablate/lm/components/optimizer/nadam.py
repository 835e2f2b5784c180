"""Nadam: Adam with Nesterov's momentum, which rises over time (Dozat 2016; as in Keras 2.x).

    mu_t = b1 (1 - 0.96^(t schedule_decay) / 2),    P_t = mu_1 mu_2 ... mu_t
    m = b1 m + (1 - b1) g            v = b2 v + (1 - b2) g^2
    step = (1 - mu_t) g / (1 - P_t) + mu_{t+1} m / (1 - P_{t+1})
    w -= rate * step / (sqrt(v / (1 - b2^t)) + epsilon)

With b1 = 0 it is RMSProp with a corrected mean square. The Dual paper trains with Keras' defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from ablate.lm.components import Optimizer, register, setting
from ablate.lm.model.optimizer import parameter_groups


@dataclass(frozen=True, kw_only=True)
class NadamConfig:
    """The learning rate, the two decays, and how fast the momentum rises."""

    learning_rate: float = setting(0.001, doc="learning rate", low=0)
    beta1: float = setting(0.9, doc="decay of the mean gradient", low=0, high=0.9999)
    beta2: float = setting(0.999, doc="decay of the mean squared gradient", low=0, high=0.99999)
    epsilon: float = setting(1e-7, doc="added to the root of the mean square", low=0)
    schedule_decay: float = setting(0.004, doc="how fast momentum rises from b1/2 to b1", low=0)
    weight_decay: float = setting(0.0, doc="L2 in the gradient, for all parameters", low=0)


@register(
    "optimizer",
    "nadam",
    config=NadamConfig,
    paper="dozat2016nadam",
    equation="Algorithm 2",
    departures=("the momentum schedule is that of Keras 2.x: 0.96^(t/250), in all updates",),
)
@final
class Nadam(Optimizer):
    """torch's NAdam, which is the same as Keras 2.x's."""

    def __init__(self, config: NadamConfig, model: nn.Module) -> None:
        self.config = config
        self.torch = torch.optim.NAdam(
            parameter_groups(model),
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            momentum_decay=config.schedule_decay,  # torch's name for Keras' schedule_decay
        )

    @classmethod
    def width_power(cls, config: NadamConfig) -> float | None:
        return 1.0
