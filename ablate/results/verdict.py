"""What a test says of an arm's value next to another arm's."""

from __future__ import annotations

from enum import StrEnum

from ablate.config.metrics import Metric


class Verdict(StrEnum):
    """What a test says of an arm: the words that tables, records and queries have."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"  # within the study's margin, whichever way
    LOWER = "lower"  # LOWER and HIGHER: of a metric of which neither direction is better
    HIGHER = "higher"
    UNDECIDED = "undecided"
    WITHHELD = "no verdict"  # the table cannot give any, whatever the values

    @property
    def decided(self) -> bool:
        """Return whether the test found a direction."""
        return self in (Verdict.BETTER, Verdict.WORSE, Verdict.LOWER, Verdict.HIGHER)

    @property
    def favours(self) -> bool | None:
        """Return whether the arm is decided to be better, or worse; None if neither is."""
        return {Verdict.BETTER: True, Verdict.WORSE: False}.get(self)


def of_loss(below_0: bool, metric: Metric) -> Verdict:
    """The word for a decided difference of losses: a loss below the other's is better."""
    if metric.directed:
        return Verdict.BETTER if below_0 else Verdict.WORSE
    return Verdict.LOWER if below_0 else Verdict.HIGHER


def not_comparable(reason: str) -> str:
    """The text beside a published number that no result may be compared with."""
    return f"not comparable: {reason}"
