"""Monte-Carlo dropout: the mean probability over masks drawn as in training (Gal & Ghahramani).

    p(w) = 1/K sum_k p(w | masks k),    with a separate state for each k

New masks are drawn for every window, as in training, from streams named by the seed, the window's
number and k. Pachitariu & Sahani 2013 (Section 4) define their P this way, over all masks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from ablate.lm.components import Chance, Evaluator, Masks, Reading, Streams, register, setting
from ablate.lm.model.evaluator import log_mean_exp
from ablate.lm.model.reading import stream_log_probs


@dataclass(frozen=True, kw_only=True)
class MonteCarloConfig:
    """The number of samples and their masks. Without dropout, all samples are the same."""

    samples: int = setting(20, doc="number of samples to average (Gal: 2,000)", low=1)
    window: int = setting(35, doc="steps that share one mask, as in training", low=1)
    seed: int = setting(0, doc="random seed of the masks", low=0)
    temperature: float = setting(1.0, doc="divides the logits; 1: off", low=0.01)


@register(
    "evaluator",
    "monte_carlo",
    config=MonteCarloConfig,
    paper="gal2016",
    equation="Section 5 (MC)",
    departures=("the stream is one row; the authors' script reads several",),
)
@final
class MonteCarlo(Evaluator):
    """The models with the dropout that they were trained with."""

    def __init__(self, config: MonteCarloConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        by_model = [self._one_model(reading, index, split) for index in range(len(reading.models))]
        return log_mean_exp(np.stack(by_model))

    def _one_model(self, reading: Reading, index: int, split: str) -> np.ndarray:
        config, model = self.config, reading.models[index]
        regularizers = reading.regularizers_of(index)
        streams = Streams(config.seed, model.device.type)

        def step(sample: int, total: np.ndarray | None) -> np.ndarray:
            log_probs = stream_log_probs(
                model,
                reading.stream(split),
                1,
                config.window,
                temperature=config.temperature,
                masks=lambda at: Masks(regularizers, Chance(streams, at, sample)),
            )
            # A running sum, so that a checkpoint holds one array and not one for each sample.
            return log_probs if total is None else np.logaddexp(total, log_probs)

        key = f"samples/{index}/{split}/{config.temperature:g}"  # `tempered` tries several
        total = reading.pieces.folded(key, config.samples, step)
        return total - np.log(config.samples)
