"""The learning rate is halved between epochs: always, or when validation asks for it.

    rate = 1 / divisor^n        n: the divisions so far

After every epoch from `flat_epochs` on there is one division, if `when` allows it: always
("epoch"); or if the epoch's validation loss was no better than that of the epoch before
("not_better"), or was better ("better"). With `least_fall`, an epoch is better if perplexity fell
by at least so much (Kim et al. 2016). By the last two, the first epoch never divides.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import final

from ablate.config.metrics import perplexity
from ablate.lm.components import Progress, ScheduleConfig, Stepwise, register, setting


@dataclass(frozen=True, kw_only=True)
class HalvingConfig(ScheduleConfig):
    """When the rate is divided, and by what."""

    divisor: float = setting(2.0, doc="the rate is divided by this", low=1)
    flat_epochs: int = setting(
        1, doc="epochs at the full rate; 0: with 'epoch', the first is divided already", low=0
    )
    when: str = setting(
        "not_better",
        doc="divide after an epoch that was not better, or better, than the one before; or always",
        choices=("not_better", "better", "epoch"),
    )
    least_fall: float = setting(
        0.0, doc="an epoch is better if perplexity fell by at least this, or at all", low=0
    )


def divisions(config: HalvingConfig, losses: tuple[float, ...]) -> int:
    """The number of divisions after epochs with these validation losses."""
    if config.when == "epoch":
        return max(len(losses) + 1 - config.flat_epochs, 0)
    wanted = config.when == "better"
    return sum(
        # Epochs count from 1, so the first pair decides after epoch 2.
        _is_better(config.least_fall, before, loss) == wanted
        for epoch, (before, loss) in enumerate(pairwise(losses), start=2)
        if epoch >= config.flat_epochs
    )


def _is_better(least_fall: float, before: float, loss: float) -> bool:
    if not least_fall:
        return loss < before  # a fall of at least 0 would call an equal loss better
    return perplexity(before) - perplexity(loss) >= least_fall


@register("schedule", "halving", config=HalvingConfig, paper="zaremba2014", equation="Section 4.1")
@final
class Halving(Stepwise):
    """Divided after every epoch, or after those that validation asks for."""

    config: HalvingConfig

    def divisor(self, now: Progress) -> float:
        return self.config.divisor ** divisions(self.config, now.losses)
