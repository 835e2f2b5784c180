"""How often a study's results are looked at, and whether it was planned so. Counts are of pairs:
seeds, or searches of tuned arms.

A test at 5% that is made again whenever more seeds are there errs in more than 5% of studies. So a
study plans its looks before its first trial. By default there is one, at the end. Results that are
looked at in any other way are judged by a test that holds whenever one stops.
"""

from __future__ import annotations

from dataclasses import dataclass

from ablate.store.replication import plural


@dataclass(frozen=True, kw_only=True)
class Looks:
    """The planned looks of a table, and those that were made; each a number of pairs."""

    planned: tuple[int, ...]
    made: tuple[int, ...]  # in order, each once
    pairs: int  # that each arm has at the end, as it is planned now
    unit: str  # what a pair is
    kept: bool = True  # False: what was stated before the first result has changed since

    @property
    def as_planned(self) -> bool:
        """Return whether no look was made, or will be made, that was not planned."""
        return self.kept and self.planned[-1] == self.pairs and set(self.made) <= set(self.planned)

    @property
    def are_several(self) -> bool:
        """Return whether a look before the end was planned, and none was made without a plan."""
        return self.as_planned and len(self.planned) > 1

    @property
    def is_one(self) -> bool:
        """Return whether the only look is the planned one at the end, judged by a plain t-test."""
        return self.as_planned and not self.are_several

    @property
    def last(self) -> int:
        """The pairs at the last look that was made; 0 before the first."""
        return max(self.made, default=0)

    @property
    def interval_of(self) -> str:
        """What an interval is valid for, to follow it; empty for one look at the end."""
        if not self.as_planned:
            return " at any time"
        return f" over {len(self.planned)} looks" if self.are_several else ""

    @property
    def test(self) -> str:
        """The test that decides."""
        if not self.as_planned:
            return "any-time valid t-test"
        return f"t-test{self.interval_of}"

    @property
    def every(self) -> tuple[int, ...]:
        """The looks that were made, and the one at the end."""
        return tuple(sorted({*self.made, self.pairs}))

    def __str__(self) -> str:
        """What readers must know of them; empty for one look at the end, as planned."""
        units = plural(self.unit)
        if not self.as_planned:
            if not self.made:
                return ""  # what has changed since the plan is said elsewhere
            return f"looked at {_listed(self.every)} {units}; {_listed(self.planned)} were planned"
        if self.is_one:
            return ""
        ahead = [num for num in self.planned if num > self.last]
        if not self.made:
            return f"looks are planned at {_listed(self.planned)} {units}"
        made = f"looked at {_listed(self.made)} {units}, as planned"
        return f"{made}; next at {ahead[0]}" if ahead else made


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
