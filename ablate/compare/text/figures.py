"""How numbers are written in tables and on screen, and losses in perplexity or bits."""

from __future__ import annotations

import math
from enum import StrEnum

NONE = "–"
LARGEST_EXPONENT = 300.0  # so that squares of shown values do not overflow


def count(number: float | None) -> str:
    """1234567 -> 1.23M."""
    if number is None:
        return NONE
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{letter}"
    return str(round(number))


def duration(seconds: float) -> str:
    """95 -> 1m35s."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def decimal(number: float, digits: int) -> str:
    return f"{number:.{digits}f}" if abs(number) < 1e7 else f"{number:.1e}"


def signed(number: float, digits: int) -> str:
    """With a sign, and a minus as long as a plus."""
    text = decimal(abs(number), digits)
    return f"{'−' if number < 0 else '+'}{text}"


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
