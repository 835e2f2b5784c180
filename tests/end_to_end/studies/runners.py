"""Tasks that train nothing and can be interrupted, or that go wrong."""

from ablate.config.resolve import resolve
from ablate.config.tasks import RUNNERS
from ablate.trial.stand_in import Slow, StandIn
from ablate.trial.task import Diverged


class Sloping(StandIn):
    """A loss that depends on the learning rate, so that arms and suggestions differ."""

    def _nll(self, epoch):
        rate = resolve(self.trial.values)["optimizer"].config.learning_rate
        return super()._nll(epoch) + abs(rate - 3.0) / 10


class SlowlySloping(Sloping, Slow):
    """The same, in a moment."""

    SECONDS = 0.1


class Broken(StandIn):
    """Diverges on its second epoch; seed 2 only."""

    def advance(self, seconds):
        if self.epoch == 1 and self.trial.seed == 2:
            raise Diverged("the training loss became nan")
        return super().advance(seconds)


# Studies name them, import this file, and bring it to their workers.
RUNNERS |= {
    "sloping": "runners:Sloping",
    "slowly_sloping": "runners:SlowlySloping",
    "broken": "runners:Broken",
}
