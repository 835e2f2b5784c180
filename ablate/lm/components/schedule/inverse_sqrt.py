"""The learning rate falls with the root of the epoch.

    rate of epoch e (from 1) = 1 / sqrt(e)

IOG (takase2017iog, Table 1) trains its gate so.
"""

from __future__ import annotations

from typing import final

from ablate.lm.components import Progress, ScheduleConfig, Stepwise, register


@register("schedule", "inverse_sqrt", config=ScheduleConfig)
@final
class InverseSqrt(Stepwise):
    """Divided by the root of the epoch."""

    def divisor(self, now: Progress) -> float:
        return (now.epoch + 1) ** 0.5
