"""Linear interpolation of a model with an n-gram model and a unigram cache.

    p(w) = a p_model(w) + b p_ngram(w) + c p_cache(w),    a + b + c = 1

p_ngram is interpolated modified Kneser-Ney over the training text, p_cache a word's share of the
last words ("+KN5+cache" in Pachitariu & Sahani 2013, Table 2). The weights are those that make the
validation text most probable, for every split; the test text never affects them. Results on the
validation text itself are therefore tuned on the same text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from ablate.lm.components import CombinationError, Evaluator, Reading, register, setting
from ablate.lm.model import ngram


@dataclass(frozen=True, kw_only=True)
class InterpolatedConfig:
    """The parts of the mix. Their weights are tuned, and recorded as metrics."""

    of: str = setting(
        "standard",
        doc="the evaluator whose probabilities are mixed in; the config must contain it too",
        choices=("standard", "dynamic", "cache", "monte_carlo"),
    )
    order: int = setting(5, doc="longest n-gram; 0: no n-gram model", low=0)
    cache_window: int = setting(100, doc="words in the unigram cache; 0: no cache", low=0)


@register(
    "evaluator",
    "interpolated",
    config=InterpolatedConfig,
    paper="pachitariu2013irlm",
    equation="Table 2 (+KN5+cache)",
    departures=("weights by expectation-maximization on valid; the paper does not say how",),
)
@final
class Interpolated(Evaluator):
    """Another evaluator's probabilities, mixed with those of counts."""

    def __init__(self, config: InterpolatedConfig) -> None:
        if not config.order and not config.cache_window:
            raise CombinationError(
                "evaluator.interpolated has nothing to mix: order = 0 and cache_window = 0. "
                "Instead: at least one of them above 0."
            )
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        parts_CN = np.stack(list(self._parts(reading, split).values()))
        return ngram.interpolated(parts_CN, np.array(list(self.weights(reading).values())))

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        metrics = super().metrics(reading, name, split)
        return metrics | {f"weight_{part}": w for part, w in self.weights(reading).items()}

    def weights(self, reading: Reading) -> dict[str, float]:
        """Each part's weight, tuned on the validation text."""

        def compute() -> dict[str, float]:
            parts = self._parts(reading, "valid")
            tuned = ngram.tuned_weights(np.stack(list(parts.values())))
            return dict(zip(parts, map(float, tuned), strict=True))

        return reading.cached(("interpolation", self.config), compute)

    def _parts(self, reading: Reading, split: str) -> dict[str, np.ndarray]:
        config, stream_N = self.config, reading.stream(split).numpy()
        parts = {"model": self._model_log_probs(reading, split, len(stream_N) - 1)}
        if config.order:
            parts["ngram"] = self._kneser_ney(reading).log_probs(stream_N)
        if config.cache_window:
            parts["cache"] = ngram.cache_log_probs(stream_N, config.cache_window)
        return parts

    def _model_log_probs(self, reading: Reading, split: str, num_predicted: int) -> np.ndarray:
        log_probs = reading.log_probs(self.config.of, split)
        if len(log_probs) != num_predicted:
            raise CombinationError(
                f"evaluator.{self.config.of} gives {len(log_probs)} of {num_predicted} tokens, and "
                "an n-gram model can only be mixed in if none is left out. Instead: batch_size = 1."
            )
        return log_probs

    def _kneser_ney(self, reading: Reading) -> ngram.KneserNey:
        """The n-gram model; a text without sentences counts as one sentence."""
        text, order = reading.text, self.config.order
        # No token has the number -1, so no sentence ends.
        eos = -1 if text.eos is None else text.eos
        train_N = reading.stream("train").numpy()
        return reading.cached(
            ("kneser-ney", order), lambda: ngram.fit(train_N, text.num_words, eos, order)
        )
