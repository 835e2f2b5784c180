"""The learning rate falls on a straight line, from 1 to `floor`.

rate = 1 - (1 - floor) u / U        update u of U, after any warm-up
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ablate.components import Progress, Schedule, ScheduleConfig, register, setting


@dataclass(frozen=True, kw_only=True)
class LinearConfig(ScheduleConfig):
    """Where the rate ends."""

    floor: float = setting(0.0, doc="share of the rate at the end", low=0, high=1)


@register("schedule", "linear", config=LinearConfig)
@final
class Linear(Schedule):
    """A straight line over the whole training."""

    config: LinearConfig

    def rate(self, now: Progress) -> float:
        return 1 - (1 - self.config.floor) * now.share
