"""The learning rate falls along half a cosine, from 1 to `floor`.

rate = floor + (1 - floor) (1 + cos(pi u / U)) / 2        update u of U, after any warm-up
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from ablate.components import Progress, Schedule, ScheduleConfig, register, setting


@dataclass(frozen=True, kw_only=True)
class CosineConfig(ScheduleConfig):
    """Where the rate ends."""

    floor: float = setting(0.0, doc="share of the rate at the end", low=0, high=1)


@register("schedule", "cosine", config=CosineConfig, paper="loshchilov2017sgdr", equation="Eq. 5")
@final
class Cosine(Schedule):
    """Half a cosine over the whole training, without restarts."""

    config: CosineConfig

    def rate(self, now: Progress) -> float:
        floor = self.config.floor
        return floor + (1 - floor) * (1 + math.cos(math.pi * now.share)) / 2
