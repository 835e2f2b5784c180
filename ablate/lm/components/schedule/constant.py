"""The same learning rate for the whole training: rate = 1."""

from __future__ import annotations

from typing import final

from ablate.lm.components import Progress, ScheduleConfig, Stepwise, register


@register("schedule", "constant", config=ScheduleConfig)
@final
class Constant(Stepwise):
    """The full rate, after a warm-up if there is one."""

    def divisor(self, now: Progress) -> float:
        return 1.0
