"""Published numbers that are one more run of ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from ablate.compare.statistics.verdicts import NOT, judged
from ablate.config.metrics import PERPLEXITY
from tests.lab.calibration.row import Case, Limit, Row, Simulated, rate

Noise = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
FEW = (
    "Where a run ends in one of two groups, the reach of another run is that of normal noise, and "
    "seeds that happen to lie in one group do not reach the other. No rule of a few seeds knows of "
    "a group that none of them is in. Such arms show two groups of dots in "
    "the plot of differences; there, read *not reproduced* as *not among our runs*."
)
BEYOND = {("a half", 3), ("a sixth", 3), ("a sixth", 12)}


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal noise."""
    return generator.normal(0, 0.05, shape)


def two_groups(generator: np.random.Generator, shape: tuple[int, ...], share: float) -> np.ndarray:
    """A share of the runs ends 0.2 nats higher than the others, whose spread is 0.02."""
    return 0.2 * (generator.random(shape) < share) + generator.normal(0, 0.02, shape)


def by_seed(generator: np.random.Generator, num: int, *, noise: Noise, seeds: int) -> Simulated:
    """Seeds of ours, and one more that the paper prints."""
    wrong = [
        _is_not([[loss] for loss in ours], theirs)
        for *ours, theirs in noise(generator, (num, seeds + 1)).tolist()
    ]
    return Simulated(rate(np.array(wrong)))


def by_search(generator: np.random.Generator, num: int, *, searches: int) -> Simulated:
    """Searches of five seeds that share their search's luck; the paper has one of each."""
    luck = generator.normal(0, 0.03, (num, searches + 1, 1))
    losses = luck + generator.normal(0, 0.02, (num, searches + 1, 5))
    wrong, by_seeds = [], []
    for *ours, theirs in losses.tolist():
        wrong.append(_is_not(ours, theirs[0]))
        by_seeds.append(_is_not([[loss] for search in ours for loss in search], theirs[0]))
    return Simulated(rate(np.array(wrong)), rate(np.array(by_seeds)))


def _is_not(ours: list[list[float]], theirs: float) -> bool:
    near = [[4 + loss for loss in pair] for pair in ours]
    return judged(near, math.exp(4 + theirs), PERPLEXITY).startswith(NOT)


ROW = Row(
    name="Not reproduced",
    promise="A published number that is one more run of ours is called not reproduced in at most "
    "5%.",
    draws="Normal noise; runs in two groups; searches of five seeds whose luck varies by one and a "
    "half times their seeds' spread.",
    of="numbers called not reproduced",
    limit=Limit(most=6),
    twin="the seeds of searches taken for independent",
    cases=(
        *(
            Case(f"normal, {seeds} seeds", partial(by_seed, noise=normal, seeds=seeds))
            for seeds in (3, 5, 12)
        ),
        *(
            Case(
                f"{share} in another group, {seeds} seeds",
                partial(by_seed, noise=partial(two_groups, share=of), seeds=seeds),
                beyond=FEW if (share, seeds) in BEYOND else "",
            )
            for share, of in (("a half", 1 / 2), ("a sixth", 1 / 6))
            for seeds in (3, 12)
        ),
        *(
            Case(f"{searches} searches of 5 seeds", partial(by_search, searches=searches))
            for searches in (3, 5, 8)
        ),
    ),
)
