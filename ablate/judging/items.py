"""Runs that were measured item by item: a run's number is the mean over its items, which all share.

How far each item is from this mean is kept, since it says how the number would vary with other
items. Items of one cluster (questions on one text, copies of one template) are no independent
draws, so of these it is how far their sum is, in units in which the mean over clusters is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ablate.errors import ConfigError
from ablate.judging.rows import Row, text
from ablate.results.spread import mean

Run = Mapping[str, Row]  # by item


def over_items(rows: Sequence[Row], item: str, cluster: str | None, source: str) -> list[Row]:
    """A row for each arm and seed: the mean over its items, and how far each is from it."""
    runs: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        of, name = runs.setdefault((row.arm, row.seed), {}), name_of(row, item, source)
        if name in of:
            raise ConfigError(
                f"{source}: rows {of[name].place} and {row.place} are both of arm '{row.arm}', "
                f"seed {row.seed} and {item} {name}, and which of them counts is unknown."
            )
        of[name] = row
    first = next(iter(runs.values()))
    clusters = {name: _cluster(name, row, cluster, source) for name, row in first.items()}
    for run in runs.values():
        _refuse_other_items(run, first, item, source)
        _refuse_moved(run, clusters, cluster, source)
    of = "item" if cluster is None else "cluster"
    return [replace(_mean(run, clusters, source), deviations_of=of) for run in runs.values()]


def name_of(row: Row, column: str, source: str) -> str:
    """The name of a row's item, or of its cluster."""
    return text(row.cells.get(column), column, f"{source}, row {row.place}")


def _cluster(name: str, row: Row, cluster: str | None, source: str) -> str:
    """The cluster of an item; without clusters it is one of its own."""
    return name if cluster is None else name_of(row, cluster, source)


def _refuse_other_items(run: Run, first: Run, item: str, source: str) -> None:
    differ = sorted(run.keys() ^ first.keys())
    if differ:
        has, of = ("lacks", first) if differ[0] in first else ("has", run)
        row, other = next(iter(run.values())), next(iter(first.values()))
        raise ConfigError(
            f"{source}: arm '{row.arm}', seed {row.seed} {has} {item} {differ[0]} (row "
            f"{of[differ[0]].place}), unlike arm '{other.arm}', seed {other.seed}. Means of other "
            "items do not compare: leave the item out of all runs, or measure it in all."
        )


def _refuse_moved(run: Run, clusters: Mapping[str, str], cluster: str | None, source: str) -> None:
    for name, row in run.items():
        own = _cluster(name, row, cluster, source)
        if own != clusters[name]:
            raise ConfigError(
                f"{source}, row {row.place}: {cluster} = {own}, and item {name} has "
                f"{clusters[name]} in another run. An item is in one cluster: name it alike in all "
                "runs."
            )


def _mean(run: Run, clusters: Mapping[str, str], source: str) -> Row:
    row = next(iter(run.values()))
    values = {name: one.value for name, one in run.items() if one.value is not None}
    if 0 < len(values) < len(run):
        place = next(one.place for one in run.values() if one.value is None)
        raise ConfigError(
            f"{source}: arm '{row.arm}', seed {row.seed} has no number in row {place}. An item "
            "that was not solved counts, too: write what it counts as, such as 0."
        )
    costs = [one.cost for one in run.values() if one.cost is not None]
    cost = mean(costs) if len(costs) == len(run) else None
    if not values:
        return replace(row, value=None, cost=cost)
    centre = mean([*values.values()])
    deviations = _deviations(values, centre, clusters)
    return replace(row, value=centre, cost=cost, deviations=deviations)


def _deviations(
    values: Mapping[str, float], centre: float, clusters: Mapping[str, str]
) -> tuple[float, ...]:
    """By cluster, in the order of the clusters: times clusters / items, so that few large ones
    count as what they are."""
    by_cluster: dict[str, list[float]] = {}
    for name, cluster in clusters.items():
        by_cluster.setdefault(cluster, []).append(values[name] - centre)
    scale = len(by_cluster) / len(values)
    return tuple(scale * math.fsum(own) for own in by_cluster.values())
