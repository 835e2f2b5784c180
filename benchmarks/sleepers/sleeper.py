"""On the workers: a task that sleeps, and a worker that writes down when it was called.

All hosts of the benchmark are one machine, so their monotonic clocks are one clock and they share
the folder of the notes.
"""

import os
import time
from pathlib import Path

from ablate.config.tasks import RUNNERS
from ablate.trial.stand_in import StandIn
from ablate.tune.worker import Worker

SECONDS = float(os.environ["SLEEPERS_SECONDS"])  # a trial, in the mean
WORKERS = int(os.environ["SLEEPERS_WORKERS"])
NOTES = Path(os.environ["SLEEPERS_NOTES"])


class Sleeper(StandIn):
    """Epochs that sleep; their lengths differ, or all trials would end at once."""

    def __init__(self, trial, place):
        super().__init__(trial, place)
        self._seconds = SECONDS * (0.5 + int(trial.id[:8], 16) % 1000 / 1000)

    def advance(self, seconds):
        time.sleep(self._seconds / self.epochs)
        return super().advance(seconds)


class RecordingMasks(Worker):
    """Write a line for every call: what, start, end. It starts when all workers exist."""

    def __init__(self, order):
        self._file = (NOTES / f"{os.getpid()}").open("a", buffering=1)
        while len(list(NOTES.iterdir())) < WORKERS:
            time.sleep(0.5)
        self._noted("begin", lambda: super(RecordingMasks, self).__init__(order))

    def advance(self):
        return self._noted("advance", super().advance)

    def _noted(self, what, call):
        start = time.monotonic()
        result = call()
        self._file.write(f"{what} {start:.4f} {time.monotonic():.4f}\n")
        return result


RUNNERS["sleeper"] = "sleeper:Sleeper"
