"""Linear interpolation of a model with an n-gram model and a unigram cache.

    p(w) = a p_model(w) + b p_ngram(w) + c p_cache(w),    a + b + c = 1

p_ngram is interpolated modified Kneser-Ney over the training text, p_cache a word's share of the
last words ("+KN5+cache" in Pachitariu & Sahani 2013, Table 2). The weights are those that make
the validation text most probable, whatever is judged; the test text never moves them. On the
validation text itself they are hence tuned on what they are judged by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from ablate import ngram
from ablate.components.evaluator import Evaluator, Reading
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class InterpolatedConfig:
    """What is mixed. The weights are tuned, and recorded as metrics."""

    of: str = setting(
        "standard",
        doc="the evaluator whose probabilities are mixed; it must be chosen as well",
        choices=("standard", "dynamic", "cache", "monte_carlo"),
    )
    order: int = setting(5, doc="longest n-gram; 0: no n-gram model", low=0)
    cache_window: int = setting(100, doc="last words in the unigram cache; 0: no cache", low=0)


@register(
    "evaluator",
    "interpolated",
    config=InterpolatedConfig,
    paper="pachitariu2013irlm",
    equation="Table 2 (+KN5+cache)",
    departures=("weights by expectation-maximisation on valid; the paper does not say how",),
)
@final
class Interpolated(Evaluator):
    """Another evaluator's probabilities beside those of counts."""

    def __init__(self, config: InterpolatedConfig) -> None:
        if not config.order and not config.cache_window:
            raise CombinationError(
                "evaluator.interpolated has nothing to mix: order = 0 and cache_window = 0. "
                "Allowed: one of them at least 1."
            )
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        parts_CN = np.stack(list(self._parts(reading, split).values()))
        return ngram.interpolated(parts_CN, np.array(list(self.weights(reading).values())))

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        found = super().metrics(reading, name, split)
        return found | {f"weight_{part}": w for part, w in self.weights(reading).items()}

    def weights(self, reading: Reading) -> dict[str, float]:
        """Of each part: the best ones on the validation text."""

        def compute() -> dict[str, float]:
            parts = self._parts(reading, "valid")
            tuned = ngram.tuned_weights(np.stack(list(parts.values())))
            return dict(zip(parts, map(float, tuned), strict=True))

        return reading.keep(("interpolation", self.config), compute)

    def _parts(self, reading: Reading, split: str) -> dict[str, np.ndarray]:
        config, stream_N = self.config, reading.stream(split).numpy()
        found = {"model": self._of_model(reading, split, len(stream_N) - 1)}
        if config.order:
            found["ngram"] = self._kneser_ney(reading).log_probs(stream_N)
        if config.cache_window:
            found["cache"] = ngram.cache_log_probs(stream_N, config.cache_window)
        return found

    def _of_model(self, reading: Reading, split: str, num_predicted: int) -> np.ndarray:
        found = reading.log_probs(self.config.of, split)
        if len(found) != num_predicted:
            raise CombinationError(
                f"evaluator.{self.config.of} gives {len(found)} of {num_predicted} tokens, and an "
                "n-gram model cannot be mixed in where some are left out. Allowed: batch_size = 1."
            )
        return found

    def _kneser_ney(self, reading: Reading) -> ngram.KneserNey:
        """Without sentences in the text, all of it is one."""
        text, order = reading.text, self.config.order
        eos = -1 if text.eos is None else text.eos
        train_N = reading.stream("train").numpy()
        return reading.keep(
            ("kneser-ney", order), lambda: ngram.fit(train_N, text.num_words, eos, order)
        )
