"""Monte-Carlo dropout: the mean probability over masks drawn as in training (Gal & Ghahramani).

    p(w) = 1/K sum_k p(w | masks k),    a state of its own for each k

The masks are drawn anew in every window, as in training, from streams named by the seed, the
window's number and k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from ablate.components.evaluator import Evaluator, Reading, log_mean_exp
from ablate.components.evaluator.standard import stream_log_probs
from ablate.components.regularizer import Chance, Masks
from ablate.fields import setting
from ablate.registry import register
from ablate.streams import Streams


@dataclass(frozen=True, kw_only=True)
class MonteCarloConfig:
    """How often and by which masks. Without dropout every sample is the plain evaluation."""

    samples: int = setting(20, doc="masks whose probabilities are averaged (Gal: 2,000)", low=1)
    window: int = setting(35, doc="steps that share their masks, as in training", low=1)
    seed: int = setting(0, doc="of the masks", low=0)
    temperature: float = setting(1.0, doc="the logits are divided by it; 1: off", low=0.01)


@register(
    "evaluator",
    "monte_carlo",
    config=MonteCarloConfig,
    paper="gal2016",
    equation="Section 5 (MC)",
    departures=("the stream is one row, where the authors' script reads several",),
)
@final
class MonteCarlo(Evaluator):
    """The models under the masks that they were trained with."""

    def __init__(self, config: MonteCarloConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        each = [self._of_one(reading, index, split) for index in range(len(reading.models))]
        return log_mean_exp(np.stack(each))

    def _of_one(self, reading: Reading, index: int, split: str) -> np.ndarray:
        config, model = self.config, reading.models[index]
        regularizers = reading.regularizers_of(index)
        streams = Streams(config.seed, model.embedding.weight.device.type)
        total = np.empty(0)
        for sample in range(config.samples):
            found = stream_log_probs(
                model,
                reading.stream(split),
                1,
                config.window,
                temperature=config.temperature,
                masks=lambda at, twin=sample: Masks(regularizers, Chance(streams, at, twin)),
            )
            total = np.logaddexp(total, found) if sample else found
        return total - np.log(config.samples)
