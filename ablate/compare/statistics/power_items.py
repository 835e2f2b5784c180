"""How many more seeds, or fresh items, decide a difference that was measured on items.

As in `power.py`, what few pairs have shown is not taken for the truth. The spreads of seeds and of
items are drawn from what their degrees of freedom leave of them, and the true difference from what
its error leaves of a prior as wide as the error of one of the n repetitions: n / (n + 1) of what
was seen, and as much of the error's variance.

More seeds are measured on the same items, and are not planned, so their part of the interval is
that of the test which holds at any time. Fresh items are measured by the same trainings, and are
judged without those that were seen, by the same test.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ablate.compare.statistics import anytime
from ablate.compare.statistics.paired import Difference, special
from ablate.compare.statistics.power import MAX_PAIRS, NUM_DRAWS, POWER
from ablate.store.replication import MIN_PAIRS

MOST_TIMES = 10  # as many items as there are, at most
GRID = 80  # numbers of further items that are tried


class More(NamedTuple):
    """What would decide a difference with a probability of 80%."""

    num: int
    of_items: bool


@lru_cache(maxsize=256)
def ways(difference: Difference, level: float) -> tuple[More, ...]:
    """More seeds or fresh items, whichever takes fewer evaluations first; what is hopeless is not
    among them."""
    num_seeds, num_items = difference.num_pairs, len(difference.of_blocks)
    draws, found = _Draws(difference), []
    if more := _first(items := _grid(num_items), draws.fresh_items(items, level)):
        found.append((more * num_seeds, More(more, True)))
    seeds = np.arange(1, MAX_PAIRS - num_seeds + 1)
    if num_seeds > 1 and (more := _first(seeds, draws.more_seeds(seeds, level))):
        found.append((more * num_items, More(more, False)))
    return tuple(more for _, more in sorted(found))


def _grid(num_items: int) -> np.ndarray:
    """Numbers of items with two digits, as nobody needs them to one item."""
    steps = np.geomspace(MIN_PAIRS, MOST_TIMES * num_items, GRID)
    return np.unique([int(float(f"{step:.1e}")) for step in steps])


def _first(numbers: np.ndarray, chances: np.ndarray) -> int | None:
    enough = np.flatnonzero(chances >= POWER)
    return int(numbers[enough[0]]) if len(enough) else None


class _Noise(NamedTuple):
    """One of the two noises: how many means it was seen in, and their variance, seen and true."""

    num: int
    seen: float
    true_D: np.ndarray

    @property
    def error(self) -> np.ndarray:
        return self.true_D / self.num


class _Draws:
    """Draws of the true difference and of the errors in what was seen of it."""

    def __init__(self, difference: Difference) -> None:
        generator, self._seen = np.random.default_rng(1), difference.mean
        noises = (difference.deltas, difference.of_blocks)
        self._seeds, self._items = (_noise(means, generator) for means in noises)
        error = self._seeds.error + self._items.error
        num = self._seeds.num if self._seeds.num > 1 else self._items.num
        kept = num / (num + 1)
        self._true = kept * self._seen + np.sqrt(kept * error) * generator.normal(size=NUM_DRAWS)
        of_both, share = self._seen - self._true, self._items.error / error
        noise = np.sqrt(self._items.error * (1 - share)) * generator.normal(size=NUM_DRAWS)
        self._of_items = of_both * share + noise
        self._of_seeds = of_both - self._of_items
        self._new = generator.normal(size=(NUM_DRAWS, 1))

    def more_seeds(self, more: np.ndarray, level: float) -> np.ndarray:
        """The probability that the difference is decided with so many more seeds."""
        seeds, items = self._seeds, self._items
        total = seeds.num + more
        fresh = self._measured(seeds, self._of_items, more)
        centre = (seeds.num * self._seen + more * fresh) / total
        spread = ((seeds.num - 1) * seeds.seen + more * seeds.true_D[:, None]) / (total - 1)
        reach = anytime.t_at(1 / level, total) ** 2 * spread / total
        return np.mean(centre**2 >= reach + _reach(items, level), 0)

    def fresh_items(self, num: np.ndarray, level: float) -> np.ndarray:
        """The probability that so many other items decide the difference of the same trainings."""
        seeds, items = self._seeds, self._items
        centre = self._measured(items, self._of_seeds, num)
        reach = special.stdtrit(num - 1, 1 - level / 2) ** 2 * items.true_D[:, None] / num
        return np.mean(centre**2 >= reach + _reach(seeds, level), 0)

    def _measured(self, noise: _Noise, stays: np.ndarray, num: np.ndarray) -> np.ndarray:
        """What new ones of a noise measure, where the error of the other noise stays."""
        return (self._true + stays)[:, None] + np.sqrt(noise.true_D[:, None] / num) * self._new


def _reach(noise: _Noise, level: float) -> float:
    """The square of a noise's part of the interval, as it is."""
    if noise.num < 2:
        return 0.0
    return float(special.stdtrit(noise.num - 1, 1 - level / 2)) ** 2 * noise.seen / noise.num


def _noise(means: tuple[float, ...], generator: np.random.Generator) -> _Noise:
    """One mean alone shows no noise."""
    num = len(means)
    if num < 2:
        return _Noise(num, 0.0, np.zeros(NUM_DRAWS))
    seen = float(np.var(means, ddof=1))
    return _Noise(num, seen, seen * (num - 1) / generator.chisquare(num - 1, NUM_DRAWS))
