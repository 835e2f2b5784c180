"""The learning rate is constant for most of the training, and falls at its end.

d = max(0, (u - (1 - share) U) / (share U))        update u of U, after any warm-up
rate = 1 - (1 - floor) d             linear
       1 - (1 - floor) sqrt(d)       sqrt (Hägele et al. 2024)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ablate.lm.components import FallingConfig, Progress, Schedule, register, setting


@dataclass(frozen=True, kw_only=True)
class WarmupStableDecayConfig(FallingConfig):
    """The last part of the training, in which the rate falls."""

    share: float = setting(
        0.2, doc="share of the updates in which the rate falls, at the end", low=0, high=1
    )
    shape: str = setting("linear", doc="how it falls", choices=("linear", "sqrt"))


@register(
    "schedule",
    "warmup_stable_decay",
    config=WarmupStableDecayConfig,
    paper="hu2024minicpm",
    equation="Section 4",
)
@final
class WarmupStableDecay(Schedule):
    """The full rate until the last share of the updates, in which it falls."""

    config: WarmupStableDecayConfig

    def rate(self, now: Progress) -> float:
        config = self.config
        late = now.share - (1 - config.share)
        fallen = late / config.share if late > 0 else 0.0
        if config.shape == "sqrt":
            fallen **= 0.5
        return 1 - (1 - config.floor) * min(1.0, fallen)
