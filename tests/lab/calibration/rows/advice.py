"""`+n`: how often n more seeds decide a comparison, where a table gives the number."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.compare.statistics import anytime, power
from ablate.store.study_record import InterimLook
from tests.lab.calibration.draws import ALPHA, p_of
from tests.lab.calibration.row import Case, Limit, Measured, Row, Simulated, hold_equal, rate
from tests.lab.calibration.tables import decides, table_of

PART = 4  # of the draws is enough for a limit this wide: each row takes milliseconds
OF_TABLES = 50  # of the first cases, also by the code that makes tables
PLUG_IN = 300  # pairs in all, up to which the twin has a number


def undecided(generator: np.random.Generator, num: int, *, seeds: int, tests: int) -> Simulated:
    """Comparisons whose effects vary as N(0, 1) spreads, and that the seeds do not decide."""
    level = ALPHA / tests
    effects = generator.normal(size=(num // PART, 1))
    seen = generator.normal(effects, 1, (len(effects), seeds))
    open_ = p_of(seen) > level
    effects, seen = effects[open_], seen[open_]
    advised = [power.more_pairs(tuple(deltas), level) for deltas in seen.tolist()]
    ours = _kept(generator, effects, seen, [more or 0 for more in advised], level)
    return Simulated(ours, _kept(generator, effects, seen, _plug_in(seen, level), level))


def _kept(
    generator: np.random.Generator,
    effects: np.ndarray,
    seen: np.ndarray,
    advised: list[int],
    level: float,
) -> Measured:
    """How often those with a number of further seeds are decided by them."""
    kept, by_tables = [], []
    for effect, deltas, more in zip(effects[:, 0], seen, advised, strict=True):
        if more:
            every = np.concatenate([deltas, generator.normal(effect, 1, more)])
            p = anytime.p_value(every.tolist())
            kept.append(p is not None and p <= level)
            if level == ALPHA and len(by_tables) < OF_TABLES:
                by_tables.append(_raised(every, len(deltas)))
    hold_equal(np.array(kept), by_tables, "seeds that were added")
    return rate(np.array(kept))


def _raised(deltas: np.ndarray, before: int) -> bool:
    """Return whether a table decides a study to which seeds were added after it had been read."""
    losses = np.array([np.zeros(len(deltas)), deltas])
    return decides(table_of(losses, looks=(before,), made=(InterimLook(num=before),)))


def _plug_in(seen: np.ndarray, level: float) -> list[int]:
    """The further seeds that decide in 80%, if the effect and the spread seen are the true ones."""
    seeds = seen.shape[1]
    numbers = np.arange(seeds + 1, PLUG_IN + 1)
    found = np.array([power.detectable(num, level) for num in numbers.tolist()])
    ratios = np.abs(seen.mean(1) / seen.std(1, ddof=1))
    first = np.searchsorted(-found, -ratios)  # what more pairs find gets smaller
    return np.where(first < len(numbers), first + 1, 0).tolist()


ROW = Row(
    name="`+n`",
    promise="Where a row is undecided and has a number of further seeds, these decide it in 80%, "
    "by the test that the table then uses: seeds that are added to what was read were not planned.",
    draws="Normal noise; effects vary as N(0, 1) spreads of a difference. Only undecided rows with "
    "a number count; the level is that of the strictest of Holm's tests.",
    of="undecided rows that the further seeds decide",
    limit=Limit(least=70, most=92),
    twin="as many as a t-test needs, with the effect and the spread seen taken for the true ones",
    cases=tuple(
        Case(
            f"{seeds} seeds, {tests} comparison{'s' * (tests > 1)}",
            partial(undecided, seeds=seeds, tests=tests),
        )
        for seeds, tests in ((3, 1), (3, 3), (5, 3), (12, 1), (12, 9))
    ),
)
