"""A promise, the draws that measure it, the limit that it must keep, and what is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ablate.compare.statistics.shares import exact_interval

NUM = 10_000  # draws of a case
CHECKED = 200  # of these, also by the code that makes tables


@dataclass(frozen=True)
class Limit:
    """Where a percentage must lie; either end may be open."""

    least: float | None = None
    most: float | None = None

    def keeps(self, percent: float) -> bool:
        """Return whether a percentage is within the limit."""
        at_least = self.least is None or percent >= self.least
        return at_least and (self.most is None or percent <= self.most)

    def excludes(self, interval: tuple[float, float]) -> bool:
        """Return whether a whole interval is beyond the limit, on one side."""
        low, high = interval
        below = self.least is not None and high < self.least
        return below or (self.most is not None and low > self.most)

    def __str__(self) -> str:
        if self.least is None or self.most is None:
            ends = (("at least", self.least), ("at most", self.most))
            return "".join(f"{word} {end:g}" for word, end in ends if end is not None) or "none"
        return f"{self.least:g} to {self.most:g}"


@dataclass(frozen=True)
class Measured:
    """A percentage, its 95% interval, and the number of draws behind it."""

    percent: float
    low: float
    high: float
    num: int

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.percent:.1f} [{self.low:.1f}, {self.high:.1f}]"


def rate(happened: np.ndarray) -> Measured:
    """How often it happened, with the exact interval."""
    num = int(np.size(happened))
    count = int(np.sum(happened))
    low, high = exact_interval(count, num)
    return Measured(100 * count / num, 100 * low, 100 * high, num)


@dataclass(frozen=True)
class Simulated:
    """What one case gave: ours, and the twin's on the same draws if the case has one."""

    ours: Measured
    twin: Measured | None = None


@dataclass(frozen=True)
class Case:
    """One setting of a row's draws."""

    what: str
    simulate: Callable[[np.random.Generator, int], Simulated]
    limit: Limit | None = None  # the row's, if this is None
    beyond: str = ""  # why it is beyond the limit, if that is known and cannot be helped


@dataclass(frozen=True)
class Row:
    """A promise of tables, and how it is measured."""

    name: str
    promise: str
    draws: str
    of: str  # what the percentages are of
    limit: Limit
    twin: str
    cases: tuple[Case, ...]

    def limit_of(self, case: Case) -> Limit:
        """The limit that a case must keep."""
        return self.limit if case.limit is None else case.limit

    def faults(self, case: Case, found: Simulated, *, few: bool = False) -> list[str]:
        """What is wrong with a case: it is beyond the limit, or its twin is not noticed.

        Of few draws, the whole interval must be beyond.
        """
        faults, limit = [], self.limit_of(case)
        kept = not limit.excludes(found.ours.interval) if few else limit.keeps(found.ours.percent)
        if not kept and not case.beyond:
            faults.append(f"{found.ours}%, and the limit is {limit}")
        if found.twin is not None and not limit.excludes(found.twin.interval):
            faults.append(
                f"the twin ({self.twin}) is not noticed: {found.twin}%, and the limit is {limit}"
            )
        return [f"{self.name}, {case.what}: {fault}" for fault in faults]


def hold_equal(ours: np.ndarray, by_tables: list[bool], what: str) -> None:
    """Raise an error unless the code of tables says of the first draws what numpy says."""
    differ = [i for i, word in enumerate(by_tables) if word != bool(ours[i])]
    assert not differ, f"{what}: tables differ from numpy in draws {differ[:5]} of {len(by_tables)}"
