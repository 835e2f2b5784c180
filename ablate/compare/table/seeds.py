"""Every seed's value, by arm: `ablate table STUDY --seeds`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ablate.compare.formats import Column, Table, for_people, for_programs
from ablate.compare.judged import Judged
from ablate.compare.table.columns import decimals
from ablate.compare.table.rows import ArmSummary
from ablate.compare.text.figures import NONE, decimal
from ablate.store.study_record import PlannedTrial


@dataclass(frozen=True)
class _Value:
    """A final trial of an arm, on a split."""

    arm: ArmSummary
    trial: PlannedTrial
    split: str
    loss: float | None
    status: str


def seed_table(summary: Judged) -> Table:
    """A row for each arm and a column for each seed, on the split that decides."""
    values = [v for v in _values(summary) if v.split == summary.split]
    seeds = list(dict.fromkeys(v.trial.seed_index for v in values))
    by_arm: dict[str, dict[int, _Value]] = {arm.name: {} for arm in summary.arms}
    for value in values:
        by_arm[value.arm.name][value.trial.seed_index] = value

    def column(index: int) -> Column:
        def cell(arm: ArmSummary) -> str:
            value = by_arm[arm.name].get(index)
            return NONE if value is None else _text(value, summary)

        return Column(_heading(index, summary), cell)

    split = f"{summary.unit} of {summary.split}"
    return for_people(
        [Column(f"arm, {split}", lambda arm: arm.name, left=True), *map(column, sorted(seeds))],
        summary.arms,
        title=f"{summary.record.key}: {split} of every seed",
    )


def _heading(index: int, summary: Judged) -> str:
    """The number of the seed; of tuned arms, with that of the search whose winner it confirms."""
    replication, record = summary.replication, summary.record
    seed = str(record.first_seed + index)
    if replication.num_searches is None or replication.num_searches < 2:
        return seed
    return f"search {index // replication.num_seeds + 1}\nseed {seed}"


def _text(value: _Value, summary: Judged) -> str:
    if value.loss is None:
        return value.status
    return decimal(summary.metric.show(value.loss), decimals(summary))


def numbers(summary: Judged, key: str) -> Table:
    """A row for each arm, seed and split, for CSV and JSON."""
    record, metric = summary.record, summary.metric
    columns = [
        Column(name="study", of=lambda _: record.key),
        Column(name="arm", of=lambda v: v.arm.name),
        Column(name="seed", of=lambda v: v.trial.seed),
        Column(name="seed_index", of=lambda v: v.trial.seed_index),
        Column(name="split", of=lambda v: v.split),
        Column(name="unit", of=lambda _: metric.shown),
        Column(name="value", of=lambda v: None if v.loss is None else metric.show(v.loss)),
        Column(name="status", of=lambda v: v.status),
        Column(name="trial", of=lambda v: v.trial.id),
        Column(name="table", of=lambda _: key),
    ]
    return for_programs(columns, _values(summary))


def _values(summary: Judged) -> Iterator[_Value]:
    for arm in summary.arms:
        planned = [t for t in summary.record.trials_of(arm.name) if t.final]
        for split in _splits(summary):
            for trial in sorted(planned, key=lambda t: t.seed_index):
                loss = arm.losses.get(split, {}).get(trial.seed_index)
                journal = summary.journals.get(trial.id)
                status = (journal and journal.status) or "to run"
                yield _Value(arm, trial, split, loss, status)


def _splits(summary: Judged) -> Sequence[str]:
    """The splits with values; before there are any, the one that decides."""
    splits = dict.fromkeys(s for arm in summary.arms for s, own in arm.losses.items() if own)
    return list(splits) or [summary.split]
