"""What a loss in nats is shown as: perplexity, or bits per character."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ablate.compare.text.figures import decimal

PERPLEXITY, BITS = "perplexity", "bits per character"
LARGEST_EXPONENT = 300.0  # so that squares of shown values do not overflow


@dataclass(frozen=True)
class Unit:
    """The unit of a table, by the level of its corpus."""

    name: str

    def show(self, nats: float) -> float:
        if self.name == BITS:
            return nats / math.log(2)
        return math.exp(min(nats, LARGEST_EXPONENT))

    def text(self, nats: float) -> str:
        """The value in the unit, with a fixed number of digits."""
        return decimal(self.show(nats), self.digits)

    @property
    def digits(self) -> int:
        return 3 if self.name == BITS else 2

    def shift(self, nats: float, at: float) -> float:
        """A difference in nats as a difference in the unit, from the value `at`.

        Monotone, so that an interval excludes 0 in one exactly when it does in the other.
        """
        if self.name == BITS:
            return nats / math.log(2)
        return at * math.expm1(min(nats, LARGEST_EXPONENT))


def unit_of(level: str) -> Unit:
    return Unit(BITS if level == "character" else PERPLEXITY)
