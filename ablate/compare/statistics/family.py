"""All tests of one page, corrected together: of arms, of a factorial's effects, and within these.

Arms, main effects and interactions are one Holm family: a page with a wrong word is a wrong page,
wherever on it the word stands. The effects of each factor at each level of the other are tested
only within decided interactions, and at these ones' share of the error: an interaction that is
rejected does not leave its share to the others, as Holm's other hypotheses do, but to its simple
effects. Of those, at most two of four can be 0 if the interaction is not (two that are both 0 at
either level of the other factor differ by 0), so each is tested at half a share. This is the
sequential rejection of Goeman and Solari (2010): at every step, the shares of all hypotheses that
may still be true sum to at most alpha.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ablate.compare.statistics import paired as statistics

Ps = Sequence[float | None]


@dataclass(frozen=True)
class Family:
    """How many arms are tested, or will be when they have results, and the effects' tests."""

    num_arms: int
    effects: tuple[float | None, ...] = ()  # p of main effects and interactions
    # Which of these keep their share: for simple effects, or for the word `same`.
    opening: frozenset[int] = frozenset()
    # As how many comparisons the test of each arm counts, if a ledger gave out shares of the error.
    counted_as: tuple[int, ...] = ()

    @property
    def num(self) -> int:
        """How many tests are corrected together."""
        return self.num_arms + len(self.effects)

    def num_for(self, arm: int) -> int:
        """As how many comparisons the test of the arm at this position counts."""
        return self.counted_as[arm] if self.counted_as else self.num

    def corrected(
        self, arms: Ps, keeping: Collection[int] = ()
    ) -> tuple[list[float | None], list[float | None]]:
        """The corrected p of the arms, and of the effects; some arms keep their share."""
        keeping = [*keeping, *(len(arms) + index for index in self.opening)]
        adjusted = statistics.holm([*arms, *self.effects], self.counted_as or self.num, keeping)
        return adjusted[: len(arms)], adjusted[len(arms) :]

    def within(self, p: float | None, interactions: Ps) -> float | None:
        """The corrected p of a simple effect, from those of the interactions that show it."""
        opened = min((one for one in interactions if one is not None), default=None)
        if p is None or opened is None:
            return None
        return max(opened, min(1.0, 2 * self.num * p))
