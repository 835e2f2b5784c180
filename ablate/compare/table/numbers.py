"""Every number of a study's table, unrounded, for CSV and JSON.

    arms       a row for an arm and split, of the metric that decides and then of each further
               column: `ablate table STUDY --format csv`
    effects    a row for an effect of a factorial: the same with `--effects`

Each row names the study, and the hash of its table. Verdicts are the table's: on the split that
decides, against the arm that `against` names, and with the holes of the table. `more` counts what
`paired_by` names: seeds, or whole searches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from ablate.compare.formats import Column, Table, for_programs
from ablate.compare.judged import Judged
from ablate.compare.table.columns import columns_of_tests, scale_of
from ablate.compare.table.costs import columns_of_cost
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.config.metrics import SPLITS
from ablate.results.arm import Cell, Measured


class _Number(NamedTuple):
    """A metric of an arm on a split; if the split decides, with the test."""

    arm: ArmSummary
    measured: Measured
    split: str
    decides: bool

    @property
    def cell(self) -> Cell | None:
        return self.measured.cells.get(self.split)

    @property
    def tested(self) -> Comparison | None:
        return self.arm.comparison if self.decides else None


def arms(summary: Judged, key: str) -> Table:
    """The split that decides has a row for every arm, with or without a value."""
    return for_programs(_arm_columns(summary, key), _numbers(summary))


def _numbers(summary: Judged) -> Iterator[_Number]:
    for arm in summary.arms:
        for split in SPLITS:
            if split in arm.cells or split == summary.split:
                yield _Number(arm, arm.measured, split, split == summary.split)
    for arm in summary.arms:
        for measured in arm.others:
            for split in measured.metric.splits:
                if split in measured.cells or split in measured.published:
                    yield _Number(arm, measured, split, False)


def _arm_columns(summary: Judged, key: str) -> list[Column]:
    record, metric = summary.record, summary.metric

    def loss(number: _Number) -> float | None:
        # A further column's loss may be on another scale than this one, of the metric that decides.
        of_metric = number.measured is number.arm.measured
        return metric.natural(number.cell.loss) if number.cell and of_metric else None

    def verdict(number: _Number) -> str | None:
        return summary.verdicts.get((number.arm.name, number.measured.metric.name, number.split))

    return [
        Column(name="study", of=lambda _: record.key),
        Column(name="arm", of=lambda n: n.arm.name),
        Column(name="split", of=lambda n: n.split),
        Column(name="unit", of=lambda n: n.measured.metric.shown),
        Column(name="mean", of=lambda n: n.cell and n.cell.mean),
        Column(name="spread", of=lambda n: n.cell and n.cell.spread),
        Column(name="seeds", of=lambda n: n.cell.num if n.cell else 0),
        Column(name="planned", of=lambda n: n.arm.counts.planned),
        Column(name="searches", of=lambda _: summary.replication.num_searches),
        Column(name=scale_of(metric), of=loss),
        Column(name="against", of=lambda n: n.tested and (n.arm.against or record.base_arm)),
        *(column.about(attrgetter("tested")) for column in columns_of_tests(summary)),
        Column(name="best", of=lambda n: n.arm.best and n.decides),
        Column(name="published", of=lambda n: n.measured.published.get(n.split)),
        Column(name="published_verdict", of=verdict),
        Column(name="num_parameters", of=lambda n: n.arm.num_parameters),
        *(column.about(attrgetter("arm")) for column in columns_of_cost()),
        Column(name="holes", of=lambda n: _num_holes([n.arm])),
        Column(name="table", of=lambda _: key),
    ]


def effects(summary: Judged, key: str) -> Table:
    """Main effects and interactions, then those within the interactions that are decided."""
    columns = [
        Column(name="study", of=lambda _: summary.record.key),
        Column(name="effect", of=lambda effect: effect.name),
        Column(name="kind", of=lambda effect: effect.kind),
        Column(name="aliases", of=lambda effect: " = ".join(effect.aliases)),
        Column(name="split", of=lambda _: summary.split),
        *columns_of_tests(summary),
        Column(name="holes", of=lambda _: _num_holes(summary.arms)),
        Column(name="table", of=lambda _: key),
    ]
    return for_programs(columns, summary.effects.every if summary.effects else ())


def _num_holes(arms: Iterable[ArmSummary]) -> int:
    return sum(arm.counts.planned - arm.counts.completed + arm.unmeasured for arm in arms)
