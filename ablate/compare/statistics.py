"""Is one arm's loss lower than another's? Paired statistics over seeds. Pure: numbers in and out.

What is paired. Two arms share seed i, so each seed gives one difference d_i of their mean nats a
token (log-perplexity). That is the quantity tested: seeds and corpora scale perplexity rather
than shift it, so its logarithm has the steadier spread. Perplexities are for showing.

What decides. The two-sided paired t-test, Holm-corrected over every comparison that the table
plans (those without a result yet count as p = 1, so a half-run table is never more generous than
the whole one). The exact sign-flip test needs no normality but cannot decide with few seeds: five
give 2/32 = .0625 at the very best, before any correction. Its p is shown beside the t-test's, for
a reader to see the two agree, and decides nothing. Fewer than three pairs are never decided.

The bootstrap interval draws whole pairs and widens its percentiles so that it is as wide as t's
for normal differences (Hesterberg 2015, "What teachers should know about the bootstrap", 4.1);
the plain percentile interval of five pairs is a third too short.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ablate.errors import MissingDependency

try:
    from scipy import special
except ImportError as error:  # the core runs without scipy; tables need it
    raise MissingDependency(
        "comparing arms needs the package scipy, which is not installed. "
        "Install it with: pip install 'ablate[study]'."
    ) from error

LOWER, HIGHER, UNDECIDED = "lower", "higher", "undecided"
MIN_PAIRS = 3
EXACT_FLIPS = 12  # at most 2^12 sign patterns are enumerated
NUM_FLIPS = 20_000  # sampled beyond that
NUM_RESAMPLES = 10_000
MAX_SEEDS = 1_000  # an effect that needs more is as good as none
ROUNDING = 1e-12  # nats: differences below this are those of floating point


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One arm minus another, in nats a token, over the seeds that both have."""

    deltas: tuple[float, ...]
    mean: float
    spread: float | None  # standard deviation of the deltas; None below two pairs
    interval: tuple[float, float] | None  # t
    p: float | None  # paired t, two-sided, before Holm; None below three pairs
    alpha: float

    @property
    def num_pairs(self) -> int:
        return len(self.deltas)

    @property
    def bootstrap(self) -> tuple[float, float] | None:
        return bootstrap_interval(self.deltas, self.alpha)

    @property
    def p_sign_flip(self) -> float | None:
        return sign_flip_test(self.deltas) if self.num_pairs >= MIN_PAIRS else None

    @property
    def effect_size(self) -> float | None:
        """mean / spread, with Hedges' correction for few pairs; None with fewer than three."""
        return effect_size(self.deltas)


def paired_difference(
    arm: Sequence[float], base: Sequence[float], *, alpha: float = 0.05
) -> Difference | None:
    """The difference of two arms whose i-th values share a seed; None where there is no pair."""
    if len(arm) != len(base):
        raise ValueError(f"{len(arm)} values cannot be paired with {len(base)}.")
    if len(arm) == 0:
        return None
    raw = [float(a) - float(b) for a, b in zip(arm, base, strict=True)]
    deltas = tuple(0.0 if abs(delta) < ROUNDING else delta for delta in raw)
    return Difference(
        deltas=deltas,
        mean=mean(deltas),
        spread=spread(deltas),
        interval=t_interval(deltas, alpha),
        p=t_test(deltas) if len(deltas) >= MIN_PAIRS else None,
        alpha=alpha,
    )


def verdict(difference: Difference | None, p_holm: float | None, alpha: float = 0.05) -> str:
    """lower or higher where the corrected test says so, undecided in every other case."""
    if difference is None or p_holm is None or difference.num_pairs < MIN_PAIRS:
        return UNDECIDED
    if p_holm > alpha or difference.mean == 0:
        return UNDECIDED
    return LOWER if difference.mean < 0 else HIGHER


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample (ddof = 1); None for a single value."""
    if len(values) < 2:
        return None
    centre = mean(values)
    found = math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))
    return 0.0 if found < ROUNDING else found


def t_interval(deltas: Sequence[float], alpha: float = 0.05) -> tuple[float, float] | None:
    """mean -+ t(1 - alpha/2, n - 1) * spread / sqrt(n)."""
    found = spread(deltas)
    if found is None:
        return None
    centre = mean(deltas)
    half = _t_quantile(1 - alpha / 2, len(deltas) - 1) * found / math.sqrt(len(deltas))
    return centre - half, centre + half


def bootstrap_interval(
    deltas: Sequence[float], alpha: float = 0.05, *, seed: int = 0
) -> tuple[float, float] | None:
    """The expanded percentile interval of the mean, from a fixed seed."""
    num = len(deltas)
    if num < 2:
        return None
    means = _resampling_weights(num, seed) @ np.asarray(deltas, dtype=float)
    wide = -math.sqrt(num / (num - 1)) * _t_quantile(1 - alpha / 2, num - 1)
    tail = float(special.ndtr(wide))
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def t_test(deltas: Sequence[float]) -> float | None:
    """p of mean = 0, two-sided. Equal differences have no spread: p is 1 if all are 0, else 0."""
    found = spread(deltas)
    if found is None:
        return None
    centre = mean(deltas)
    if found == 0:
        return 1.0 if centre == 0 else 0.0
    t = abs(centre) / (found / math.sqrt(len(deltas)))
    return min(1.0, 2 * float(special.stdtr(len(deltas) - 1, -t)))


def sign_flip_test(deltas: Sequence[float], *, seed: int = 0) -> float:
    """The share of sign patterns whose mean is at least as far from 0 as the one seen.

    Every pattern up to twelve pairs; beyond that a sample of them, the one seen counted in.
    """
    values = np.asarray(deltas, dtype=float)
    seen = abs(values.sum()) - ROUNDING * len(deltas)
    if len(deltas) <= EXACT_FLIPS:
        return float(np.mean(np.abs(_sign_patterns(len(deltas)) @ values) >= seen))
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(NUM_FLIPS, len(deltas)))
    as_far = int(np.sum(np.abs(signs @ values) >= seen))
    return (1 + as_far) / (1 + NUM_FLIPS)


def holm(
    p_values: Sequence[float | None], num_comparisons: int | None = None
) -> list[float | None]:
    """Holm's step-down adjustment. A missing p counts as 1: planned, and not yet shown."""
    num = max(len(p_values), num_comparisons or 0)
    known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for step, (p, index) in enumerate(known):
        largest = max(largest, min(1.0, (num - step) * p))
        adjusted[index] = largest
    return adjusted


def effect_size(deltas: Sequence[float]) -> float | None:
    """Hedges' g of paired differences: mean / spread, corrected for its bias with few pairs.

    The correction leaves nothing of it with two, so that there is none.
    """
    found = spread(deltas)
    if not found or len(deltas) < MIN_PAIRS:
        return None
    return mean(deltas) / found * (1 - 3 / (4 * (len(deltas) - 1) - 1))


def seeds_needed(
    deltas: Sequence[float],
    *,
    alpha: float = 0.05,
    comparisons: int = 1,
    power: float = 0.8,
) -> int | None:
    """How many more seeds would decide it, if effect and spread are as seen.

    The smallest number of pairs at which a paired t-test at alpha / comparisons (Holm's strictest
    step) finds the effect with the given power, less the pairs there are. None where the effect
    is ~ 0 against its spread, so that no sensible number would do, or no spread is known. A guess
    from a guess: with few pairs the effect seen may be twice the true one, or half.
    """
    found, num = spread(deltas), len(deltas)
    if found is None or mean(deltas) == 0:
        return None
    if found == 0:
        return max(0, MIN_PAIRS - num)
    effect = abs(mean(deltas)) / found
    level = alpha / max(1, comparisons)
    if _power(effect, MAX_SEEDS, level) < power:
        return None
    low, high = MIN_PAIRS - 1, MAX_SEEDS  # power grows with n: bisect
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(effect, middle, level) >= power else (middle, high)
    return max(0, high - num)


def _power(effect: float, num: int, level: float) -> float:
    """The chance that a paired t-test of `num` pairs finds an effect of so many spreads."""
    noncentrality, free = effect * math.sqrt(num), num - 1
    critical = _t_quantile(1 - level / 2, free)
    found = 1 - float(special.nctdtr(free, noncentrality, critical))
    if math.isnan(found):  # scipy gives up far in the tails: the normal is exact enough there
        found = float(special.ndtr(noncentrality - critical))
    return found


@lru_cache(maxsize=256)
def _t_quantile(probability: float, free: int) -> float:
    return float(special.stdtrit(free, probability))


@lru_cache(maxsize=4)
def _resampling_weights(num: int, seed: int) -> np.ndarray:
    """[resample, pair]: how often each pair was drawn, over the number of pairs."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(num, [1 / num] * num, size=NUM_RESAMPLES) / num


@lru_cache(maxsize=EXACT_FLIPS)
def _sign_patterns(num: int) -> np.ndarray:
    return np.array(list(itertools.product([1.0, -1.0], repeat=num)))
