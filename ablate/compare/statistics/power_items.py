"""How many more seeds, or fresh items, decide a difference that was measured on items.

As in `power.py`, what few pairs have shown is not taken for the truth. The spreads of seeds and of
items are drawn from what their degrees of freedom leave of them, and the true difference from what
its error leaves of a prior as wide as the error of one of the n repetitions: n / (n + 1) of what
was seen, and as much of the error's variance.

More seeds are `power.py`'s, on the same items. Fresh items are measured by the same trainings, and
are judged without those that were seen, by the same test.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ablate.compare.statistics.paired import Difference, special
from ablate.compare.statistics.power import NUM_DRAWS, POWER, more_pairs
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
    found, fresh = [], _grid(num_items)
    if more := _first(fresh, _chances(difference, fresh, level)):
        found.append((more * num_seeds, More(more, True)))
    if more := more_pairs(difference.deltas, level, difference.of_blocks):
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


def _chances(difference: Difference, fresh: np.ndarray, level: float) -> np.ndarray:
    """The probability that so many other items decide the difference of the same trainings."""
    generator = np.random.default_rng(1)
    seeds, items = (_noise(means, generator) for means in difference.noises)
    error = seeds.error + items.error
    num = seeds.num if seeds.num > 1 else items.num
    kept = num / (num + 1)
    true = kept * difference.mean + np.sqrt(kept * error) * generator.normal(size=NUM_DRAWS)
    share = items.error / error
    noise = np.sqrt(items.error * (1 - share)) * generator.normal(size=NUM_DRAWS)
    of_these_seeds = true + (difference.mean - true) * (1 - share) - noise
    new = np.sqrt(items.true_D[:, None] / fresh) * generator.normal(size=(NUM_DRAWS, 1))
    centre = of_these_seeds[:, None] + new
    reach = special.stdtrit(fresh - 1, 1 - level / 2) ** 2 * items.true_D[:, None] / fresh
    return np.mean(centre**2 >= reach + _reach(seeds, level), 0)


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
