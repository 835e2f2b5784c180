"""The learning rate falls on a straight line, from 1 to `floor`.

rate = 1 - (1 - floor) u / U        update u of U, after any warm-up
"""

from __future__ import annotations

from typing import final

from ablate.lm.components import FallingConfig, Progress, Schedule, register


@register("schedule", "linear", config=FallingConfig)
@final
class Linear(Schedule):
    """A straight line over the whole training."""

    config: FallingConfig

    def rate(self, now: Progress) -> float:
        return 1 - (1 - self.config.floor) * now.share
