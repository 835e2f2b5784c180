"""Variants as a ledger knows them: the pairs of each, over all its judgements.

A variant is its pairs and not its name. Results of one name on further seeds add to the variant; a
seed whose pair has another value now, of the arm or of its base, makes it another variant. Pairs
that are the same are of the same variant, whatever the base and the column are called.

The k-th variant is judged at 1 / (k (k + 1)) of the error, which sums to all of it over any number
of variants. Those that are judged together have equal shares of their sum: n of them after k others
1 / ((k + 1) (k + n + 1)) each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.judging.rows import Row

Values = Mapping[str, float | None]  # seed -> value; None where a run has none


@dataclass(frozen=True)
class Judged:
    """One variant, as it was judged once."""

    base: str
    metric: str
    arm: str
    values: Values
    when: str
    looks: tuple[int, ...] = ()  # planned when it was judged first
    of_base: Values | None = None  # older ledgers do not have them
    held_out: bool = False  # on seeds that nobody had seen
    counts_as: int | None = None  # comparisons; older ledgers do not say so


@dataclass(frozen=True)
class Variant:
    """A variant over all its judgements."""

    base: str
    metric: str
    values: Values
    of_base: Values | None
    looks: tuple[int, ...]  # the numbers of pairs at which it was judged
    planned: tuple[int, ...]
    counts_as: int

    def agrees(self, judged: Judged) -> bool:
        """Return whether results may be of this variant: no seed that both have contradicts."""
        of_base = self.of_base or {}
        return not _differ(self.values, judged.values) and not _differ(
            of_base, judged.of_base or {}
        )

    def shares(self, judged: Judged) -> bool:
        """Return whether results have a seed that this variant was judged on."""
        return not self.values.keys().isdisjoint(judged.values)

    def follows(self, judged: Judged) -> bool:
        """Return whether results on other seeds go on with this variant, by the names of both."""
        same = (self.base, self.metric) == (judged.base, judged.metric)
        return same and self.of_base is not None

    def knows(self, judged: Judged) -> bool:
        """Return whether a judgement has nothing new."""
        of_base = (self.of_base or {}).items()
        return judged.values.items() <= self.values.items() and (
            (judged.of_base or {}).items() <= of_base
        )

    def judged_again(self, judged: Judged) -> Variant:
        """The variant with a further judgement."""
        values, of_base = {**self.values, **judged.values}, self.of_base
        if judged.of_base is not None:
            of_base = {**(of_base or {}), **judged.of_base}
        looks = (*self.looks, _num_pairs(values, of_base))
        return replace(self, values=values, of_base=of_base, looks=looks)


class Family:
    """The variants that share one error, in the order in which they were judged first."""

    def __init__(self) -> None:
        self._by_arm: dict[str, list[Variant]] = {}
        self.num = 0

    def take(self, judged: Judged) -> None:
        """Add a judgement to its variant, or the variant that it begins."""
        known = self._by_arm.setdefault(judged.arm, [])
        at = _matching(known, judged)
        if at is not None:
            known[at] = known[at].judged_again(judged)
            return
        self.num += 1
        looks = (_num_pairs(judged.values, judged.of_base),)
        counts_as = judged.counts_as or comparisons(self.num - 1, 1)
        known.append(
            Variant(
                judged.base,
                judged.metric,
                judged.values,
                judged.of_base,
                looks,
                judged.looks,
                counts_as,
            )
        )

    def matching(self, judged: Judged) -> Variant | None:
        """The variant that results are of, if it was judged before."""
        known = self._by_arm.get(judged.arm, [])
        at = _matching(known, judged)
        return None if at is None else known[at]


def comparisons(known: int, new: int) -> int:
    """As how many comparisons each of `new` variants counts, after those that are known."""
    return (known + 1) * (known + new + 1)


def values_of(rows: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    """Arm -> seed -> value, of the runs that ended by themselves."""
    by_arm: dict[str, dict[str, float | None]] = {}
    for row in rows:
        values = by_arm.setdefault(row.arm, {})
        if not row.state:
            values[row.seed] = row.value
    return by_arm


def _matching(variants: Sequence[Variant], judged: Judged) -> int | None:
    """Which variant results are of: one that has a seed of theirs, or else the latest."""
    agree = [at for at, known in enumerate(variants) if known.agrees(judged)]
    shared = [at for at in agree if variants[at].shares(judged)]
    follow = [at for at in agree if variants[at].follows(judged)]
    return next(reversed(shared or follow), None)


def _differ(one: Values, other: Values) -> bool:
    few, many = sorted((one, other), key=len)
    return any(seed in many and many[seed] != value for seed, value in few.items())


def _num_pairs(values: Values, of_base: Values | None) -> int:
    return len(values) if of_base is None else len(values.keys() & of_base.keys())
