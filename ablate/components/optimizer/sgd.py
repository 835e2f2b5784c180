"""Gradient descent whose rate is flat for some epochs and then divided after every one.

rate of epoch e (from 0) = learning_rate / decay^max(e - flat_epochs, 0)        Zaremba's script
                           learning_rate / decay^max(e + 1 - flat_epochs, 0)    TensorFlow's
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ablate.components.optimizer import Optimizer, Saved, parameter_groups, set_rate
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


def rate_in_epoch(config: SgdConfig, epoch: int) -> float:
    """The rate in epoch `epoch`, counted from 0."""
    ahead = 1 if config.counting == "tensorflow" else 0
    return config.learning_rate / config.decay ** max(epoch + ahead - config.flat_epochs, 0)


@register("optimizer", "sgd", config=SgdConfig, paper="zaremba2014", equation="Section 4.1")
@final
class Sgd(Optimizer):
    """torch's SGD without momentum."""

    def __init__(self, config: SgdConfig, model: nn.Module) -> None:
        self.config = config
        self.epochs_done = 0
        self.torch = torch.optim.SGD(
            parameter_groups(model), lr=config.learning_rate, weight_decay=config.weight_decay
        )

    @property
    def rate(self) -> float:
        return rate_in_epoch(self.config, self.epochs_done)

    def step(self, scale: float = 1.0) -> None:
        set_rate(self.torch, self.rate * scale)
        self.torch.step()

    def epoch_ended(self, epoch: int, valid_nll: float) -> str | None:
        before = self.rate
        self.epochs_done = epoch
        return None if self.rate == before else f"learning rate {before:.6g} -> {self.rate:.6g}"

    def saved(self) -> Saved:
        return {}, {"epochs_done": self.epochs_done}

    def restore(self, tensors: dict[str, Tensor], plain: dict) -> None:
        self.epochs_done = plain["epochs_done"]
