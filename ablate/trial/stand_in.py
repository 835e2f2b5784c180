"""A `Task` that trains nothing: epochs and a loss drawn from the trial's streams.

It measures the cost of everything but training, and tests schedules and tables with hundreds of
trials. A study chooses it with `runner="stand_in"`. Its numbers cannot be mistaken for a model's,
since the runner is part of a trial's id and of its journal.
"""

from __future__ import annotations

import json
import math
import time
from typing import Any

import numpy as np

from ablate.config.identity import Trial
from ablate.config.streams import Streams
from ablate.config.tensors import Tensor, as_tensor
from ablate.trial.task import Conclusion, Place, splits_of

SPREAD = 0.01  # nats between seeds


class StandIn:
    """Its loss is 5 nats, minus 0.1 per epoch, plus a random draw for the seed."""

    def __init__(self, trial: Trial, place: Place) -> None:
        self.trial = trial
        self.epochs = getattr(trial.config.sections.get("training"), "epochs", 1)
        self.epoch = 0

    @property
    def finished(self) -> bool:
        return self.epoch >= self.epochs

    def advance(self, seconds: float) -> dict[str, Any] | None:
        self.epoch += 1
        nll = self._nll(self.epoch)
        return {
            "epoch": self.epoch,
            "train_nll": nll,
            "valid_nll": nll,
            "valid_ppl": math.exp(nll),
            "tokens": 0,
            "seconds": 0.0,
        }

    def _nll(self, epoch: int) -> float:
        # The epoch names the stream, so a resumed trial has the same losses.
        draws = Streams(self.trial.seed).python("stand_in", epoch)
        return 5 - 0.1 * epoch + draws.gauss(0, SPREAD)

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"nothing": _nothing()}, {"epoch": self.epoch}

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        self.epoch = plain["epoch"]

    def conclude(self) -> Conclusion:
        nll = self._nll(self.epoch)
        splits = splits_of(self.trial)
        return Conclusion(
            metrics={f"{split}_nll": nll for split in splits},
            num_parameters=0,
            digest=f"{nll!r}",
            weights={"nothing": _nothing()},
            token_log_probs={split: np.full(3, -nll) for split in splits},
        )


def _nothing() -> Tensor:
    return as_tensor(np.zeros(1, np.float32))


class Noise(StandIn):
    """Its loss depends on the learning rate, on the seed, and on a random draw for all its values.

    Arms that differ in other values then differ by chance alone, and a search has something to
    find, partly by luck. For the A/A test of the whole pipeline.
    """

    # Nats: per squared decade of the rate, of a seed's draw, and of a draw for the values.
    BEST_RATE, CURVATURE, SHARED, OWN = 0.1, 0.01, 0.02, 0.01

    def _nll(self, epoch: int) -> float:
        rate = self.trial.values["optimizer.learning_rate"]
        away = math.log10(rate / self.BEST_RATE)
        shared = Streams(self.trial.seed).python("shared").gauss(0, self.SHARED)
        # The name of the stream: arms with other values have other draws.
        values = json.dumps(self.trial.values, sort_keys=True)
        own = Streams(self.trial.seed).python(values).gauss(0, self.OWN)
        return 5 + self.CURVATURE * away**2 + shared + own


class Slow(StandIn):
    """A `StandIn` whose epochs take a moment, so that it can be interrupted."""

    SECONDS = 0.3  # an epoch

    def advance(self, seconds: float) -> dict[str, Any] | None:
        time.sleep(self.SECONDS)
        return super().advance(seconds)
