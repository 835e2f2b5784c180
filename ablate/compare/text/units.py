"""What a loss in nats is shown as: perplexity, or bits per character."""

from __future__ import annotations

import math
from enum import StrEnum

from ablate.compare.text.figures import decimal

LARGEST_EXPONENT = 300.0  # so that squares of shown values do not overflow


class Unit(StrEnum):
    """The unit of a table, by the level of its corpus."""

    PERPLEXITY = "perplexity"
    BITS = "bits per character"

    @property
    def digits(self) -> int:
        return 3 if self is Unit.BITS else 2

    @property
    def metric(self) -> str:
        """Its name in the papers' tables."""
        return "bpc" if self is Unit.BITS else "ppl"

    def show(self, nats: float) -> float:
        if self is Unit.BITS:
            return nats / math.log(2)
        return math.exp(min(nats, LARGEST_EXPONENT))

    def nats(self, shown: float) -> float:
        """The loss that is shown as this."""
        return shown * math.log(2) if self is Unit.BITS else math.log(shown)

    def text(self, nats: float) -> str:
        """The value in the unit, with a fixed number of digits."""
        return decimal(self.show(nats), self.digits)

    def shift(self, nats: float, at: float) -> float:
        """A difference in nats as a difference in the unit, from the value `at`.

        Monotone, so that an interval excludes 0 in one exactly when it does in the other.
        """
        if self is Unit.BITS:
            return nats / math.log(2)
        return at * math.expm1(min(nats, LARGEST_EXPONENT))


def unit_of(level: str) -> Unit:
    return Unit.BITS if level == "character" else Unit.PERPLEXITY
