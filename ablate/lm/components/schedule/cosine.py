"""The learning rate falls along half a cosine, from 1 to `floor`.

rate = floor + (1 - floor) (1 + cos(pi u / U)) / 2        update u of U, after any warm-up
"""

from __future__ import annotations

import math
from typing import final

from ablate.lm.components import FallingConfig, Progress, Schedule, register


@register("schedule", "cosine", config=FallingConfig, paper="loshchilov2017sgdr", equation="Eq. 5")
@final
class Cosine(Schedule):
    """Half a cosine over the whole training, without restarts."""

    config: FallingConfig

    def rate(self, now: Progress) -> float:
        floor = self.config.floor
        return floor + (1 - floor) * (1 + math.cos(math.pi * now.share)) / 2
