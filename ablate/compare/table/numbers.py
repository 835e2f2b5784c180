"""Every number of a study's table, unrounded, for CSV and JSON.

    arms       a row for an arm and split, of the metric that decides and then of each further
               column: `ablate table STUDY --format csv`
    effects    a row for an effect of a factorial: the same with `--effects`

Each row names the study, and the hash of the table it belongs to. Verdicts are those of the table:
on the split that decides, against the arm that `against` names, and with the holes that it has.
`more` counts what `paired_by` names: seeds, or whole searches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ablate.compare.formats import Table, table_of_values
from ablate.compare.table.rows import ArmSummary, Comparison, Effect, Summary
from ablate.config.metrics import SPLITS, Metric
from ablate.results.arm import Measured


def tested(metric: Metric) -> list[str]:
    """The columns of a test. Differences are on the metric's scale: nats, or `scaled`."""
    scale = _scale(metric)
    return [
        *("pairs", "paired_by", f"delta_{scale}", f"low_{scale}", f"high_{scale}", "interval_of"),
        *("p", "p_sign_flip", "p_holm", "effect_size", "verdict", "reason", "more"),
    ]


def _scale(metric: Metric) -> str:
    return "nats" if metric.reports_scaled else "scaled"


def arms(summary: Summary, key: str) -> Table:
    """The split that decides has a row for every arm, with or without a value."""
    rows = [
        _arm(summary, arm, split, key)
        for arm in summary.arms
        for split in SPLITS
        if split in arm.cells or split == summary.split
    ]
    rows += [
        _other(summary, arm, measured, split, key)
        for arm in summary.arms
        for measured in arm.others
        for split in measured.metric.splits
        if split in measured.cells or split in measured.published
    ]
    metric = summary.metric
    names = ["study", "arm", "split", "unit", "mean", "spread", "seeds", "planned", "searches"]
    names += [_scale(metric), "against", *tested(metric), "best"]
    names += ["published", "published_verdict", "num_parameters", "holes", "table"]
    return table_of_values(names, rows)


def effects(summary: Summary, key: str) -> Table:
    """Main effects and interactions, then those within the interactions that are decided."""
    every = summary.effects.every if summary.effects else ()
    names = ["study", "effect", "kind", "aliases", "split", *tested(summary.metric)]
    rows = [_effect(summary, effect, key) for effect in every]
    return table_of_values([*names, "holes", "table"], rows)


def _arm(summary: Summary, arm: ArmSummary, split: str, key: str) -> list[Any]:
    cell, decides = arm.cells.get(split), split == summary.split
    measured = (cell.mean, cell.spread, cell.num) if cell else (None, None, 0)
    verdict = summary.verdicts.get((arm.name, summary.metric.name, split))
    return [
        *(summary.record.key, arm.name, split, summary.unit, *measured, arm.counts.planned),
        *(summary.replication.num_searches, cell and summary.metric.natural(cell.loss)),
        (arm.against or summary.record.base_arm) if decides and arm.comparison else None,
        *_tested(summary, arm.comparison if decides else None),
        *(arm.best and decides, arm.published.get(split), verdict, arm.num_parameters),
        *(_num_holes([arm]), key),
    ]


def _other(
    summary: Summary, arm: ArmSummary, measured: Measured, split: str, key: str
) -> list[Any]:
    """A row of a metric that does not decide: it has no test."""
    cell, metric = measured.cells.get(split), measured.metric
    values = (cell.mean, cell.spread, cell.num) if cell else (None, None, 0)
    return [
        *(summary.record.key, arm.name, split, metric.shown, *values, arm.counts.planned),
        *(summary.replication.num_searches, None, None, *_tested(summary, None), False),
        measured.published.get(split),
        summary.verdicts.get((arm.name, metric.name, split)),
        *(arm.num_parameters, _num_holes([arm]), key),
    ]


def _effect(summary: Summary, effect: Effect, key: str) -> list[Any]:
    return [
        *(summary.record.key, effect.name, effect.kind, " = ".join(effect.aliases)),
        *(summary.split, *_tested(summary, effect), _num_holes(summary.arms), key),
    ]


def _tested(summary: Summary, comparison: Comparison | Effect | None) -> list[Any]:
    """The statistics, in the order of `tested`."""
    metric, replication = summary.metric, summary.replication
    if comparison is None:
        return [None] * len(tested(metric))
    difference = comparison.difference
    interval, size = difference.interval, difference.effect_size
    interval_of = "settings found" if replication.of_settings_found else "arms"
    return [
        *(difference.num_pairs, replication.unit, metric.natural(difference.mean)),
        *(*(metric.natural_interval(interval) if interval else (None, None)), interval_of),
        *(difference.p, difference.p_sign_flip, comparison.p_holm),
        None if size is None else metric.natural(size),
        *(comparison.verdict, comparison.reason, comparison.more),
    ]


def _num_holes(arms: Iterable[ArmSummary]) -> int:
    return sum(arm.counts.planned - arm.counts.completed + arm.unmeasured for arm in arms)
