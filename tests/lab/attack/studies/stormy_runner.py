"""A task that trains nothing, in epochs that take KILLS_SECONDS each."""

import os
import time

from ablate.config.resolve import resolve
from ablate.config.tasks import RUNNERS
from ablate.trial.stand_in import StandIn


class Sloping(StandIn):
    """A loss that depends on the learning rate, so that suggestions differ."""

    def advance(self, seconds):
        time.sleep(float(os.environ.get("KILLS_SECONDS", "0")))
        return super().advance(seconds)

    def _nll(self, epoch):
        rate = resolve(self.trial.values)["optimizer"].config.learning_rate
        return super()._nll(epoch) + abs(rate - 3.0) / 10


RUNNERS["sloping"] = "stormy_runner:Sloping"
