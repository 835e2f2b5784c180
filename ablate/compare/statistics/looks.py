"""The paired t-test over several planned looks.

At each look, all pairs so far are tested. What is reported is how often the *smallest* p of all
planned looks would be as small as the smallest one so far, if there were no difference:

    p = P(min over all planned looks of p_k <= smallest p seen)

Under no difference, the t statistics of all looks have one distribution, whatever the spread, so
normal draws of a fixed seed give it. This p can only fall with further looks. What it decides at a
look, it therefore decides at the last one, and stopping an arm there costs nothing: Holm's
correction over these p's holds the error of the whole table. Looks are planned numbers of pairs; if
failures cost some pairs, the looks' p's are still exact, and only how they hang together is not.

Pairs that were measured block by block are tested over both at each look (`two_noises.py`): the
blocks are the same at all of them, so for what blocks alone say there is but one look, and the t
that several looks need errs on the wide side.

An interval is the t interval at the level that decides a single comparison. All intervals of the
planned looks then cover the truth together, in 95% of studies.

`deciding_interval` agrees with the test, however many looks there are: it excludes 0 where p is at
most its level, and nowhere else. A table has this one, at each comparison's share of the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy import special

from ablate.compare.statistics import anytime, items
from ablate.compare.statistics.paired import Difference
from ablate.store.looks import Looks

NUM_DRAWS = 200_000
SEED = 36
GRID = 4096


def over_looks(
    difference: Difference, pairs: Sequence[int], looks: Looks, alpha: float
) -> Difference:
    """The same difference with the p and the interval that its looks allow.

    `pairs` are the numbers of its pairs, in order. A difference that is not tested stays as it is.
    """
    if looks.is_one:
        interval = items.interval(difference, alpha)
        return replace(difference, interval=interval, p=items.p_value(difference))
    if looks.are_several:
        interval = items.interval(difference, level(alpha, looks.planned))
        tests = _tests_of_planned(difference, pairs, looks)
    else:
        interval = anytime.interval(difference, alpha)
        tests = anytime.tests(difference)
    p, num = min(tests, default=(None, None))
    if p is not None and looks.are_several:
        p = p_over(p, looks.planned)
    return replace(difference, interval=interval, p=p, num_of_p=num)


def _tests_of_planned(
    difference: Difference, pairs: Sequence[int], looks: Looks
) -> list[tuple[float, int]]:
    """The p of the t-test at each look that was made, and the number of its pairs."""
    numbers = (sum(pair < num for pair in pairs) for num in looks.made)
    tests = ((items.p_value(difference.first(num)), num) for num in numbers if num)
    return [(p, num) for p, num in tests if p is not None]


def deciding_interval(
    difference: Difference, looks: Looks, level: float
) -> tuple[float, float] | None:
    """The interval over all pairs; where an earlier look decided, over the pairs of that one."""
    if difference.p is None:
        return None
    deciding = difference.first(difference.num_of_p if difference.p <= level else None)
    if looks.are_several:
        return items.interval(deciding, largest_p(level, looks.planned))
    if looks.is_one:
        return items.interval(deciding, level)
    return anytime.interval(deciding, level)


def p_over(smallest: float, planned: Sequence[int]) -> float:
    """How likely it is, without a difference, that some planned look has a p as small as this.

    Where draws are too few to tell, the bound that needs none: the sum over the looks.
    """
    null = smallest_p_values(tuple(planned))
    as_small = int(np.searchsorted(null, smallest, side="right"))
    return min(1.0, len(planned) * smallest, (1 + as_small) / (1 + len(null)))


def largest_p(level: float, planned: Sequence[int]) -> float:
    """The largest p of a single t-test of which `p_over` is at most `level`."""
    null = smallest_p_values(tuple(planned))
    of_draws = int(level * (1 + len(null))) - 1
    return max(level / len(planned), float(null[of_draws]) if of_draws >= 0 else 0.0)


def level(alpha: float, planned: Sequence[int]) -> float:
    """The p of a single t-test that `p_over` takes for alpha."""
    return float(np.quantile(smallest_p_values(tuple(planned)), alpha))


@lru_cache(maxsize=8)
def smallest_p_values(planned: tuple[int, ...]) -> np.ndarray:
    """The smallest p over the planned looks in each of 200,000 studies without a difference,
    sorted."""
    rng = np.random.default_rng(SEED)
    centre, squares, before = np.zeros(NUM_DRAWS), np.zeros(NUM_DRAWS), 0
    smallest = np.ones(NUM_DRAWS)
    for num in planned:
        # The pairs between two looks enter by their mean and their sum of squares around it.
        more = num - before
        new_mean = rng.standard_normal(NUM_DRAWS) / np.sqrt(more)
        new_squares = rng.chisquare(more - 1, NUM_DRAWS) if more > 1 else 0.0
        apart = new_mean - centre
        squares = squares + new_squares + apart**2 * before * more / num
        centre, before = centre + apart * more / num, num
        # With t² / (n - 1), that of the t-test at this look.
        np.minimum(smallest, _two_sided(num * centre**2 / squares, num - 1), out=smallest)
    return np.sort(smallest)


def _two_sided(ratio: np.ndarray, free: int) -> np.ndarray:
    """The p of each t, given t² / `free`: read off a grid, since the function itself takes a
    second for as many draws. On these scales it is smooth, and the grid exact to 1e-5."""
    position = np.sqrt(np.log1p(ratio))  # about proportional to t where t is small
    grid = np.linspace(0, position.max(), GRID)
    with np.errstate(divide="ignore"):  # p below the smallest double
        log_p = np.log(2 * special.stdtr(free, -np.sqrt(free * np.expm1(grid**2))))
    return np.exp(np.interp(position, grid, log_p))
