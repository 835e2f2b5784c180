"""Differences that come in clusters: seeds of several settings, or of several corpora.

Pairs of one cluster share what is particular to it, so a test over all pairs takes many seeds of
few settings for many repetitions: where effects vary between settings as much as between seeds, it
calls a mean effect of 0 decided in 26 to 28%. What repeats an effect beyond its settings is another
setting: the test is a paired t over the clusters' means, each of which counts once, however many
pairs it has (4.1 to 5.5%, with 1 to 10 pairs a cluster). Below three clusters nothing says how much
clusters vary, and there is no test of what they have in common.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.paired import Difference

MIN_CLUSTERS = 3


def by_cluster(
    clusters: Collection[Sequence[float]], *, size: float = 1.0, alpha: float = 0.05
) -> Difference | None:
    """The difference over the clusters' means; None where there are too few clusters.

    Each cluster has the differences of its pairs; `size` is that of the values subtracted.
    """
    if len(clusters) < MIN_CLUSTERS:
        return None
    means = [statistics.mean(deltas) for deltas in clusters]
    return statistics.paired_difference(means, size=size, alpha=alpha)
