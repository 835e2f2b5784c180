"""Another evaluator at the temperature that suits the validation text best (Melis et al. 2020).

    p = softmax(c s),    c from 1.06 down to 0.80 in steps of 0.02,    1/c divides the logits

c is chosen on the first tokens of the validation text, and the same c is used for test. The search
begins at the first c and ends after two values without a gain. Results on the validation text
itself are therefore tuned on the same text. Read in the authors' code (lamb).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from ablate.lm.components import Evaluator, Reading, register, setting


@dataclass(frozen=True, kw_only=True)
class TemperedConfig:
    """What is evaluated at which inverse temperatures; the defaults are the authors'."""

    of: str = setting(
        "standard",
        doc="the evaluator whose temperature is tuned; the config must contain it too",
        choices=("standard", "dynamic", "cache", "monte_carlo"),
    )
    first: float = setting(1.06, doc="the first inverse temperature to try", low=0.01)
    last: float = setting(0.8, doc="the last one", low=0.01)
    step: float = setting(0.02, doc="from each inverse temperature to the next", low=0.0001)
    patience: int = setting(2, doc="end after N in a row without a gain", low=1)
    tokens: int = setting(50_000, doc="predictions of the validation text to choose by", low=1)


def candidates(config: TemperedConfig) -> Iterator[float]:
    """The inverse temperatures, in the order in which they are tried."""
    # Rounded up a little: (1 - 0.9) / 0.02 is just below 5.
    num_steps = int(abs(config.last - config.first) / config.step + 1e-9)
    towards = config.step if config.last > config.first else -config.step
    return (config.first + number * towards for number in range(num_steps + 1))


@register(
    "evaluator",
    "tempered",
    config=TemperedConfig,
    paper="melis2020mogrifier",
    equation="how its models are evaluated, as in the authors' code (lamb)",
    departures=(
        "the search reads what the other evaluator reads, one stream by default; the authors' "
        "reads up to 64 rows, each from a zero state",
        "validation after each epoch of training has no temperature; in the authors' code it has",
    ),
)
@final
class Tempered(Evaluator):
    """Builds the other evaluator again, at each temperature."""

    def __init__(self, config: TemperedConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        return self._at(reading, self.inverse_temperature(reading), split)

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        metrics = super().metrics(reading, name, split)
        return metrics | {"inverse_temperature": self.inverse_temperature(reading)}

    def inverse_temperature(self, reading: Reading) -> float:
        """The best of the candidates, by the validation text."""
        return reading.cached(("inverse temperature", self.config), lambda: self._search(reading))

    def _search(self, reading: Reading) -> float:
        best, best_value, without_gain = float("inf"), self.config.first, 0
        for value in candidates(self.config):
            nll = -float(np.mean(self._at(reading, value, "valid")[: self.config.tokens]))
            without_gain = 0 if nll < best else without_gain + 1
            if nll < best:
                best, best_value = nll, value
            if without_gain == self.config.patience:
                break
        return best_value

    def _at(self, reading: Reading, value: float, split: str) -> np.ndarray:
        def compute() -> np.ndarray:
            other: Any = reading.evaluator(self.config.of)
            temperature = other.config.temperature / value
            made = type(other)(replace(other.config, temperature=temperature))
            return made.token_log_probs(reading, split)

        # The search reads all of validation, so its result there is not computed a second time.
        return reading.cached((self.config.of, "tempered", value, split), compute)
