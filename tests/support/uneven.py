"""A user's technique, as several processes load it: what it does may go wrong between them."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ablate.components import LanguageModel, Pass, Regularizer, TrainingText, register, setting


@dataclass(frozen=True, kw_only=True)
class UnevenConfig:
    """What happens, and in which update, counted from 1."""

    does: str = setting("gradient", doc="what happens")
    update: int = setting(1, doc="when it begins")


class Factors(nn.Module):
    """A factor for each unit of the last layer, one that nothing uses, and what is noted."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.used = nn.Parameter(torch.ones(units))
        self.unused = nn.Parameter(torch.ones(units))
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(()))


@register("regularizer", "uneven", config=UnevenConfig)
class Uneven(Regularizer):
    """By default, a penalty with a parameter of its own."""

    by_rows = True

    def __init__(self, config: UnevenConfig) -> None:
        self.config = config
        self.updates = 0  # that have begun

    def auxiliary(self, model: LanguageModel, text: TrainingText | None) -> nn.Module | None:
        self.factors = Factors(model.shapes.output)
        return self.factors

    def penalty(self, passed: Pass, model: nn.Module) -> Tensor | None:
        self.updates += 1
        if self.updates < self.config.update:
            return None
        self.factors.updates += 1
        if self.config.does == "keep the mean":  # of this process's rows, as torch.nn.BatchNorm1d
            self.factors.mean.copy_(passed.features.output_TBH.detach().mean())
        if self.config.does == "draw numpy":
            return self.factors.used.mean() * np.random.rand()
        if self.config.does == "draw Python":
            return self.factors.used.mean() * random.random()
        return (passed.features.output_TBH * self.factors.used).square().mean()

    def project(self, model: nn.Module) -> None:
        if self.updates < self.config.update:
            return
        if self.config.does == "step by chance":
            self.factors.used.data.mul_(1 + 0.1 * random.random() * np.random.rand())
        if self.config.does == "step apart":
            self.factors.used.data.mul_(1 + random.Random(os.getpid()).random())
