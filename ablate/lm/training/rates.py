"""The learning rate of every update: a schedule, asked about the progress of a training."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.lm.model.schedule import Progress, Schedule
from ablate.lm.training.updates import Reader


class Rates:
    """The rates of a training, of which every round starts over."""

    def __init__(self, schedule: Schedule, reader: Reader, epochs: int) -> None:
        self.schedule = schedule
        # Counted only if they are read: drawing the windows of hundreds of epochs takes seconds.
        counted = range(epochs if schedule.counts_updates else 0)
        self.updates = [reader.updates_in(epoch) for epoch in counted]

    def at(self, highest: float, update: int, losses: Sequence[float], round_start: int) -> float:
        """The rate of an update of the epoch that follows those with these validation losses."""
        done = sum(self.updates[round_start : len(losses)])
        total, own = sum(self.updates[round_start:]), tuple(losses[round_start:])
        now = Progress(update=done + update, total=total, losses=own)
        return self.schedule.learning_rate(highest, now)
