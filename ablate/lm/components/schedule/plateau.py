"""The learning rate drops when validation no longer improves (Melis et al. 2018, by their code).

    rate = 1 / divisor^drops

A drop comes after `patience` epochs without a new best on validation, counted from the best or from
the last drop, whichever is later; the first drop comes after epoch `first_drop` at the latest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from ablate.lm.components import Progress, ScheduleConfig, Stepwise, register, setting


@dataclass(frozen=True, kw_only=True)
class PlateauConfig(ScheduleConfig):
    """How long to wait, and how far the rate drops."""

    divisor: float = setting(10.0, doc="the rate is divided by this at every drop", low=1)
    patience: int = setting(10, doc="epochs without a new best on validation before a drop", low=1)
    first_drop: int | None = setting(
        None, doc="the first drop comes after this epoch at the latest", low=1
    )


def drops(config: PlateauConfig, losses: tuple[float, ...]) -> int:
    """The number of drops after epochs with these validation losses."""
    best, since, num = math.inf, 0, 0
    for epoch, loss in enumerate(losses, start=1):
        if loss < best:
            best, since = loss, epoch
        late = num == 0 and config.first_drop is not None and epoch >= config.first_drop
        if late or epoch - since >= config.patience:
            num, since = num + 1, epoch
    return num


@register("schedule", "plateau", config=PlateauConfig)
@final
class Plateau(Stepwise):
    """Divided after epochs without a new best on validation."""

    config: PlateauConfig

    def divisor(self, now: Progress) -> float:
        return self.config.divisor ** drops(self.config, now.losses)
