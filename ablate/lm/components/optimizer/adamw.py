"""AdamW: Adam, with a weight decay beside the gradient instead of in it.

    m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2
    w = (1 - rate * decay) w - rate * m^ / (sqrt(v^) + epsilon)

where ^ divides by 1 - b^t. So a weight's decay does not depend on its gradients. It is of matrices
alone by default: a bias or a gain has no reason to be small. With a base width (muP), a hidden
matrix loses the same share in a step at every width, though its rate does not stay the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from ablate.lm.components import Optimizer, register, setting
from ablate.lm.model.growth import matrices_between
from ablate.lm.model.optimizer import Choose, decayed_alike, every, parameter_groups


@dataclass(frozen=True, kw_only=True)
class AdamwConfig:
    """The learning rate, the two decays of means, and that of weights."""

    learning_rate: float = setting(0.001, doc="learning rate, before any schedule", low=0)
    beta1: float = setting(0.9, doc="decay of the mean gradient", low=0, high=0.9999)
    beta2: float = setting(0.999, doc="decay of the mean squared gradient", low=0, high=0.99999)
    epsilon: float = setting(1e-8, doc="added to the root of the mean square", low=0)
    weight_decay: float = setting(0.01, doc="share of a weight lost in a step of rate 1", low=0)
    decayed: str = setting(
        "matrices",
        doc="what decays: what has two dimensions or more (also word vectors), all, or hidden "
        "matrices (neither word vectors nor output matrices)",
        choices=("matrices", "all", "hidden"),
    )


def is_matrix(parameter: nn.Parameter) -> bool:
    """Whether it has two dimensions or more."""
    return parameter.dim() > 1


def adamw(model: nn.Module, config: AdamwConfig, chosen: Choose = every) -> torch.optim.AdamW:
    """torch's AdamW over the chosen parameters, those that do not decay in groups of their own."""
    decays = every if config.decayed == "all" else is_matrix
    if config.decayed == "hidden":
        decays = matrices_between(model).__contains__
    decayed = parameter_groups(model, lambda p: chosen(p) and decays(p))
    others = parameter_groups(model, lambda p: chosen(p) and not decays(p))
    return torch.optim.AdamW(
        decayed_alike(decayed, config.weight_decay) + decayed_alike(others, 0.0),
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )


@register(
    "optimizer", "adamw", config=AdamwConfig, paper="loshchilov2019adamw", equation="Algorithm 2"
)
@final
class AdamW(Optimizer):
    """torch's AdamW, each step in one pass over the parameters."""

    def __init__(self, config: AdamwConfig, model: nn.Module) -> None:
        self.config = config
        self.torch = adamw(model, config)

    @classmethod
    def width_power(cls, config: AdamwConfig) -> float | None:
        return 1.0
