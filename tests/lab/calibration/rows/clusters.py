"""Pairs of several settings or corpora: `compare --except`, and rows of corpora."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.compare.statistics.clusters import by_cluster
from tests.lab.calibration.draws import ALPHA, p_of
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate

MOST = 10  # pairs of a cluster


def vary(generator: np.random.Generator, num: int, *, clusters: int, apart: float) -> Simulated:
    """Clusters of 1 to 10 pairs, whose effects vary around 0."""
    sizes = generator.integers(1, MOST + 1, (num, clusters))
    effects = generator.normal(0, apart, (num, clusters, 1))
    pairs = effects + generator.normal(0, 1, (num, clusters, MOST))
    present = np.arange(MOST) < sizes[..., None]
    means = np.where(present, pairs, 0).sum(-1) / sizes
    wrong = p_of(means) <= ALPHA
    drawn = zip(pairs[:CHECKED], sizes[:CHECKED].tolist(), strict=True)
    by_tables = [_decides(table, of) for table, of in drawn]
    hold_equal(wrong, by_tables, f"{clusters} clusters")
    pooled = [p_of(table[there]) <= ALPHA for table, there in zip(pairs, present, strict=True)]
    return Simulated(rate(wrong), rate(np.array(pooled)) if apart else None)


def _decides(table: np.ndarray, sizes: list[int]) -> bool:
    of = [deltas[:size].tolist() for deltas, size in zip(table, sizes, strict=True)]
    difference = by_cluster(of)
    return difference is not None and difference.p is not None and difference.p <= ALPHA


ROW = Row(
    name="Settings and corpora",
    promise="`compare --except` over three settings or more, whose effects vary around 0, calls "
    "the change better or worse in at most 5%.",
    draws="Settings of 1 to 10 pairs. The standard deviation of effects between settings is given "
    "in those of a pair's noise.",
    of="rows with a wrong word",
    limit=Limit(most=5.5),
    twin="all pairs pooled",
    cases=tuple(
        Case(
            f"{clusters} settings, {apart:g} between", partial(vary, clusters=clusters, apart=apart)
        )
        for clusters, apart in ((3, 0.0), (3, 1.0), (3, 2.5), (8, 1.0), (20, 0.0), (20, 1.0))
    ),
)
