"""What a test says of an arm's value next to another arm's."""

from __future__ import annotations

from enum import StrEnum

from ablate.config.metrics import Metric


class Verdict(StrEnum):
    """What a test says. Of two losses, or of what people read of them."""

    LOWER = "lower"
    HIGHER = "higher"
    UNDECIDED = "undecided"
    WITHHELD = "no verdict"  # the table cannot give any, whatever the values

    @property
    def decided(self) -> bool:
        """Return whether the test found a direction."""
        return self in (Verdict.LOWER, Verdict.HIGHER)

    @property
    def opposite(self) -> Verdict:
        """The verdict on the same two values with their signs changed."""
        opposites = {Verdict.LOWER: Verdict.HIGHER, Verdict.HIGHER: Verdict.LOWER}
        return opposites.get(self, self)

    def favours(self, metric: Metric) -> bool | None:
        """Return whether the arm is decided to be better, or worse; None if neither is.

        The verdict is on what people read of the metric.
        """
        return self == metric.better if self.decided and metric.directed else None


def not_comparable(reason: str) -> str:
    """The text beside a published number that no result may be compared with."""
    return f"not comparable: {reason}"
