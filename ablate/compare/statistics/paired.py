"""Is one arm's loss lower than another's? Paired statistics over seeds. Pure: numbers in and out.

What is paired. Two arms share seed i, so each seed gives one difference d_i of their mean nats a
token (log-perplexity). This difference is tested: seeds and corpora scale perplexity rather than
shift it, so the logarithm has the steadier spread. Perplexities are only shown.

What decides. The two-sided paired t-test, Holm-corrected over every comparison that the table
plans (those without a result yet count as p = 1, so a half-run table is never more generous than
the whole one). The exact sign-flip test needs no normality but cannot decide with few seeds: five
give 2/32 = .0625 at the very best, before any correction. Its p is shown next to the t-test's, so
that a reader sees whether the two agree, and decides nothing. Fewer than three pairs are never
decided.

The interval is the t interval, for any number of pairs. It covers the truth in 95% of normal
differences, in about as many where both arms have the same noise of another shape, and in fewer
where one arm's noise is skewed, or in two groups, and the other's is not: docs/calibration.md has
the rates. A bootstrap over pairs covers less with few pairs (76% with three normal ones, 87% with
four) and no more with many, so there is none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ablate.errors import MissingDependency, needs
from ablate.results.spread import ROUNDING, mean, spread
from ablate.results.verdict import Verdict
from ablate.store.replication import MIN_PAIRS

try:
    from scipy import special
except ImportError as error:  # the core runs without scipy; tables need it
    raise MissingDependency(needs("comparing arms needs", "scipy")) from error

EXACT_FLIPS = 12  # at most 2^12 sign patterns are enumerated
NUM_FLIPS = 20_000  # sampled beyond that
MANY = 10_000  # pairs, beyond which a sum with random signs is normal
AT_ONCE = 2_000_000  # signs in memory


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One arm minus another, in nats a token, over the seeds that both have."""

    deltas: tuple[float, ...]
    mean: float
    spread: float | None  # standard deviation of the deltas; None below two pairs
    interval: tuple[float, float] | None  # t
    # Paired t, two-sided, before Holm. None below three pairs, without a spread, or if untested.
    p: float | None
    num_of_p: int | None = None  # the first pairs that gave p, if looks were several
    # Of pairs that were measured on the same blocks of text or items: by how much each block's
    # difference is above the pair's. Empty if the pairs alone are known.
    by_block: tuple[tuple[float, ...], ...] = ()

    @property
    def tested(self) -> tuple[float, ...]:
        """The pairs that gave p: their mean has its direction."""
        return self.deltas[: self.num_of_p]

    @property
    def num_pairs(self) -> int:
        """The number of pairs."""
        return len(self.deltas)

    @property
    def of_blocks(self) -> tuple[float, ...]:
        """The difference on each block: the mean over the pairs."""
        return tuple(self.mean + mean(of_pairs) for of_pairs in zip(*self.by_block, strict=True))

    @property
    def noises(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The differences of the pairs, and those on the blocks."""
        return self.deltas, self.of_blocks

    def first(self, num: int | None) -> Difference:
        """The difference of the first pairs; of all, if `num` is None."""
        deltas = self.deltas[:num]
        return replace(self, deltas=deltas, mean=mean(deltas), by_block=self.by_block[:num])

    @property
    def is_over_blocks(self) -> bool:
        """Return whether there is one pair, whose blocks are the only repetitions."""
        return bool(self.by_block) and self.num_pairs == 1

    @property
    def is_repeated(self) -> bool:
        """Return whether there are enough pairs, or blocks of one pair, for a test."""
        return self.num_pairs >= MIN_PAIRS or self.is_over_blocks

    @property
    def that_differ(self) -> tuple[float, ...]:
        """The pairs; of one training each, its blocks other than 0."""
        if not self.is_over_blocks:
            return self.deltas
        largest = max(map(abs, self.of_blocks))
        return tuple(each for each in self.of_blocks if abs(each) > ROUNDING * largest)

    @property
    def is_nothing(self) -> bool:
        """Return whether what repeats it never differs."""
        return self.is_repeated and not any(self.deltas) and not any(map(any, self.by_block))

    @property
    def is_constant(self) -> bool:
        """Return whether all pairs have one difference, other than 0: no test says how differences
        would vary."""
        return self.spread == 0 and self.mean != 0

    @property
    def p_sign_flip(self) -> float | None:
        """The p-value of an exact test that flips the differences' signs."""
        return None if self.p is None or self.is_over_blocks else sign_flip_test(self.deltas)


def paired_difference(
    deltas: Sequence[float], *, size: float = 1.0, alpha: float = 0.05, tested: bool = True
) -> Difference | None:
    """The difference of two arms from those of their pairs; None if there is no pair.

    `size` is the largest of the values that were subtracted. Without `tested` there is no p: for
    pairs that are not repetitions.
    """
    if len(deltas) == 0:
        return None
    deltas = _without_noise(deltas, ROUNDING * size)
    return Difference(
        deltas=deltas,
        mean=mean(deltas),
        spread=spread(deltas),
        interval=t_interval(deltas, alpha),
        p=t_test(deltas) if tested and len(deltas) >= MIN_PAIRS else None,
    )


def _without_noise(deltas: Sequence[float], noise: float) -> tuple[float, ...]:
    """Set differences below the noise to 0, and all to their mean if only noise parts them."""
    if max(deltas) - min(deltas) < noise:
        deltas = [mean(deltas)] * len(deltas)
    return tuple(0.0 if abs(delta) < noise else float(delta) for delta in deltas)


def verdict(difference: Difference | None, p_holm: float | None, alpha: float = 0.05) -> Verdict:
    """better (a loss below the other's) or worse if the corrected test says so, or undecided."""
    if difference is None or p_holm is None or not difference.is_repeated:
        return Verdict.UNDECIDED
    if p_holm > alpha or difference.mean == 0:
        return Verdict.UNDECIDED
    return Verdict.BETTER if mean(difference.tested) < 0 else Verdict.WORSE


def t_interval(deltas: Sequence[float], alpha: float = 0.05) -> tuple[float, float] | None:
    """mean -+ t(1 - alpha/2, n - 1) * spread / sqrt(n)."""
    deviation = spread(deltas)
    if deviation is None:
        return None
    centre = mean(deltas)
    half = t_quantile(1 - alpha / 2, len(deltas) - 1) * deviation / math.sqrt(len(deltas))
    return centre - half, centre + half


def t_test(deltas: Sequence[float]) -> float | None:
    """p of mean = 0, two-sided. Without a spread it is 1 if all differences are 0, else None."""
    deviation = spread(deltas)
    if deviation is None:
        return None
    centre = mean(deltas)
    if deviation == 0:
        return 1.0 if centre == 0 else None
    t = abs(centre) / (deviation / math.sqrt(len(deltas)))
    return min(1.0, 2 * float(special.stdtr(len(deltas) - 1, -t)))


def sign_flip_test(deltas: Sequence[float], *, seed: int = 0) -> float:
    """The share of sign patterns whose mean is at least as far from 0 as the observed one.

    Every pattern up to twelve pairs; beyond that a sample of them, with the observed one counted,
    and of very many pairs the normal distribution that their sum has.
    """
    values = np.asarray(deltas, dtype=float)
    # Lowered by a rounding error: equal sums, added in another order, are as far from 0.
    seen = abs(values.sum()) - ROUNDING * np.abs(values).sum()
    if len(deltas) <= EXACT_FLIPS:
        return float(np.mean(np.abs(_sign_patterns(len(deltas)) @ values) >= seen))
    if len(deltas) > MANY:
        size = float(np.sqrt(np.square(values).sum()))
        return 2 * float(special.ndtr(-seen / size)) if seen > 0 else 1.0
    rng, as_far, rows = np.random.default_rng(seed), 0, AT_ONCE // len(deltas)
    for first in range(0, NUM_FLIPS, rows):
        shape = min(rows, NUM_FLIPS - first), len(deltas)
        as_far += int(np.sum(np.abs(rng.choice([-1.0, 1.0], size=shape) @ values) >= seen))
    return (1 + as_far) / (1 + NUM_FLIPS)


def holm(
    p_values: Sequence[float | None],
    num: int | Sequence[int] | None = None,
    keeping: Collection[int] = (),
) -> list[float | None]:
    """Holm's step-down adjustment. A missing p counts as 1: planned, without a result yet.

    `num` comparisons are planned, if not all of these. Those at the positions `keeping` do not
    leave their share of the error to the others once they are rejected. A number for each: its
    share of the error is one of so many, where shares are not equal.
    """
    num = len(p_values) if num is None else num
    nums = [num] * len(p_values) if isinstance(num, int) else num
    known = sorted((nums[i] * p, p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest, left = 0.0, Fraction(1)
    for _, p, index in known:
        # Never below the adjusted value of a smaller p.
        largest = max(largest, min(1.0, float(nums[index] * left) * p))
        adjusted[index] = largest
        left -= 0 if index in keeping else Fraction(1, nums[index])
    return adjusted


@lru_cache(maxsize=256)
def t_quantile(probability: float, free: int) -> float:
    """Return a quantile of Student's t with `free` degrees of freedom."""
    return float(special.stdtrit(free, probability))


@lru_cache(maxsize=EXACT_FLIPS)
def _sign_patterns(num: int) -> np.ndarray:
    return np.array(list(itertools.product([1.0, -1.0], repeat=num)))
