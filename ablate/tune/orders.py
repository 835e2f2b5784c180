"""Orders to workers, and what comes back: one trial at a time, or the seeds of an arm.

With `Scale(fuse="seeds")` the seeds of an arm that can start are one order, which a worker trains
as one batch of models. Each is still a trial of its own: it ends, is stopped and fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ablate.config.identity import Trial
from ablate.config.tasks import TRAINING
from ablate.store.epoch import Epoch
from ablate.tune.schedule import Schedule

Ordered = Callable[[Sequence[Trial]], Mapping[str, Any]]  # trials -> an order to a worker


class Orders:
    """The trials of a schedule, as workers get them."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._alone: set[str] = set()  # arms whose seeds are known to be no batch

    def next(self) -> list[Trial]:
        """The trials that a free worker should run now: none, one, or the seeds of an arm."""
        trial = self.schedule.next()
        return [] if trial is None else [trial, *self._seeds_beside(trial)]

    def _seeds_beside(self, trial: Trial) -> list[Trial]:
        """The other seeds of a trial that can start now, and are trained with it."""
        found: list[Trial] = []
        if self.schedule.plan.scale.fuse == "seeds" and trial.runner == TRAINING:
            while (other := self.schedule.next(like=trial)) is not None:
                found.append(other)
        return found

    def take_in(self, trial: Trial, slice_: Mapping[str, Any]) -> bool:
        """Pass a slice of a trial to the schedule; return whether the trial continues."""
        self._note_alone(trial, slice_.get("alone"))
        epoch = Epoch.from_plain(slice_["epoch"]) if slice_["epoch"] else None
        self.schedule.progress(trial.id, epoch, slice_.get("reached"))
        if slice_["done"]:
            self.schedule.finished(trial.id)
            return False
        return epoch is None or self.schedule.report(trial.id, epoch)

    def _note_alone(self, trial: Trial, why: str | None) -> None:
        if why is not None and trial.arm not in self._alone:
            self._alone.add(trial.arm)
            self.schedule.note(f"{trial.arm}: its seeds are trained one by one, since {why}")
