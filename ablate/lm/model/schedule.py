"""Schedules: the share of the learning rate at every update, under any optimizer.

A schedule computes the share from the progress of training alone. So it has no state of its own: a
training that is resumed asks with the same progress, and gets the same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ablate.config.fields import setting

# The slot's technique and its values that an optimizer's own fields, from before there was a slot,
# stand for; None if these fields leave the rate as it is.
OwnSchedule = tuple[str, Mapping[str, Any]] | None


@dataclass(frozen=True)
class Progress:
    """How far a training has come: its updates, and the validation losses of its epochs."""

    update: int  # the number of the next update, from 0
    total: int  # updates of the whole training, as planned; 0 for a schedule that reads none
    losses: tuple[float, ...]

    @property
    def epoch(self) -> int:
        """The number of finished epochs."""
        return len(self.losses)

    @property
    def share(self) -> float:
        """The share of all updates that is done."""
        return min(1.0, self.update / max(1, self.total))


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """The base of every schedule's config: a warm-up before any of them."""

    warmup: int = setting(
        0, doc="updates over which the rate first rises from 0; others count from their end", low=0
    )


@dataclass(frozen=True, kw_only=True)
class FallingConfig(ScheduleConfig):
    """The base of the configs of schedules that fall to the end of a training."""

    floor: float = setting(0.0, doc="share of the rate at the end", low=0, high=1)


class Schedule(ABC):
    """Built as `Schedule(config)`, whose config is a `ScheduleConfig`."""

    reads_updates = True  # False: it depends on epochs and validation alone

    def __init__(self, config: ScheduleConfig) -> None:
        self.config = config

    @property
    def counts_updates(self) -> bool:
        """Whether the rate changes within an epoch."""
        return self.reads_updates or self.config.warmup > 0

    @abstractmethod
    def rate(self, now: Progress) -> float:
        """The share of the learning rate, from 0 to 1; `now` counts updates after the warm-up."""

    def learning_rate(self, highest: float, now: Progress) -> float:
        """The learning rate of the next update; `highest` is the optimizer's."""
        warmup = self.config.warmup
        own = replace(now, update=max(0, now.update - warmup), total=max(0, now.total - warmup))
        # Update number `warmup` is the first at the full rate, and none is wasted at rate 0.
        return self.of(highest, own) * min(1.0, (now.update + 1) / (warmup + 1))

    def of(self, highest: float, now: Progress) -> float:
        """The share of `highest` at this progress."""
        return highest * self.rate(now)


class Stepwise(Schedule):
    """A schedule that divides the learning rate between epochs, and leaves it within them."""

    reads_updates = False

    @abstractmethod
    def divisor(self, now: Progress) -> float:
        """What the learning rate is divided by."""

    def rate(self, now: Progress) -> float:
        return 1 / self.divisor(now)

    def of(self, highest: float, now: Progress) -> float:
        # Recorded trials divided. A product with the share may differ in the last bit.
        return highest / self.divisor(now)
