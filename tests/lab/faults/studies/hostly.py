"""A task that trains nothing, for workers that must not look at the driver's disk."""

import os
import sys
import time

from ablate.config.resolve import resolve
from ablate.config.tasks import RUNNERS
from ablate.trial.stand_in import StandIn

DRIVERS = "/tmp/driver"  # the driver's folder, on its own host


def _refuse(event, args):
    if event == "open" and isinstance(args[0], str) and args[0].startswith(DRIVERS):
        raise RuntimeError(f"a worker opens {args[0]}")


if not os.path.exists(DRIVERS):
    sys.addaudithook(_refuse)


class Sloping(StandIn):
    """A loss that depends on the learning rate; an epoch takes a moment."""

    def advance(self, seconds):
        time.sleep(float(os.environ.get("FAULTS_SECONDS", "0.4")))
        return super().advance(seconds)

    def _nll(self, epoch):
        rate = resolve(self.trial.values)["optimizer"].config.learning_rate
        return super()._nll(epoch) + abs(rate - 3.0) / 10


RUNNERS["sloping"] = "hostly:Sloping"
