"""What repeats an arm's result, and so what is paired: its seeds, or whole searches.

A listed arm is repeated by its seeds. A tuned arm is repeated by its searches: all seeds that
confirm one search's winner share that search's luck, and are averaged into one repetition.

Below three searches an arm, it is unknown how much searches vary. A pair is then a seed,
intervals are of the settings that were found, and there is no verdict: arms that differ only by
chance, tuned by one search each, were called different in 11 to 23% of simulated tables. (The twin
of tuned arms in docs/calibration.md does the same to three searches.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

MIN_PAIRS = 3  # below, no test decides
MIN_SEARCHES = 3


@dataclass(frozen=True, kw_only=True)
class Replication:
    """How often each arm of a table was repeated, and by seeds or searches."""

    num_seeds: int  # of a listed arm, or of each search's winner
    num_searches: int | None = None  # of an arm; None if arms are listed

    @property
    def by_search(self) -> bool:
        """Return whether a pair is a search."""
        return self.num_searches is not None and self.num_searches >= MIN_SEARCHES

    @property
    def untestable(self) -> bool:
        """Return whether results are of the settings that were found, not of the arms."""
        return self.num_searches is not None and not self.by_search

    @property
    def unit(self) -> str:
        """What a pair is."""
        return "search" if self.by_search else "seed"

    @property
    def searches(self) -> str:
        """`1 search`; empty if arms are listed."""
        return "" if self.num_searches is None else counted(self.num_searches, "search")

    @property
    def interval_of(self) -> str:
        """What an interval is of, to follow the word `interval`; empty if it is of the arms."""
        return " of the settings found" if self.untestable else ""

    def groups(self, seeds: Iterable[int]) -> list[list[int]]:
        """The seeds of each pair, in order."""
        groups: dict[int, list[int]] = {}
        for index in seeds:
            groups.setdefault(self.pair(index), []).append(index)
        return list(groups.values())

    def means(self, values: Mapping[int, float], seeds: Iterable[int]) -> list[float]:
        """The mean value of each pair."""
        return [fmean(values[index] for index in group) for group in self.groups(seeds)]

    def pair(self, seed_index: int) -> int:
        """The number of the pair that a seed is in, from 0.

        Results over all seeds, one for each search, come after the seeds of all searches.
        """
        if not self.by_search or self.num_searches is None:
            return seed_index
        beyond = seed_index - self.num_searches * self.num_seeds
        return beyond if beyond >= 0 else seed_index // self.num_seeds


def counted(num: int, unit: str) -> str:
    """`1 search`, `3 searches`."""
    return f"{num} {unit if num == 1 else plural(unit)}"


def plural(unit: str) -> str:
    """Return several of a unit: seeds, or searches."""
    return "searches" if unit == "search" else f"{unit}s"
