"""The table over a study's corpora, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import attrgetter

from ablate.compare.formats import Column, Table, for_people, for_programs
from ablate.compare.judged import Judged
from ablate.compare.statistics.clusters import MIN_CLUSTERS
from ablate.compare.statistics.over_corpora import CorpusRow, OverCorpora
from ablate.compare.table import columns as shown
from ablate.compare.table.rows import Comparison
from ablate.compare.text.figures import NONE, changed
from ablate.store.replication import counted
from ablate.store.study_record import study_key

OF_VERDICTS = ("p_holm", "verdict", "reason", "within")


def over_corpora_table(found: OverCorpora) -> Table:
    """The table for people."""
    first = found.first
    record = first.record
    key = study_key(record.name, record.one_of)
    heading = f"{shown.delta_name(first)} base, {first.split}\n[{100 * (1 - first.alpha):g}%]"
    columns = [
        Column("corpus", lambda row: row.corpus or f"{row.num} corpora", left=True, names=True),
        Column("arm", lambda row: row.arm, left=True, names=True),
        Column(first.split, _mean),
        Column(heading, _delta, first=1),
    ]
    if any(row.over for row in found.rows):
        columns += [
            Column("same\nsign", lambda row: f"{row.num_alike} of {row.num}" if row.over else ""),
            Column("spread of\ncorpora", _spread),
            Column("verdict", _verdict, left=True, first=1),
        ]
    return for_people(
        columns,
        found.rows,
        title=f"{key} · {len(record.corpora)} corpora",
        question=record.question,
        settings=[f"{record.seeds} per arm and corpus; base arm '{record.base_arm}'"],
        warnings=list(_warnings(found)),
        notes=list(_notes(found)),
    )


def over_corpora_numbers(found: OverCorpora) -> Table:
    """Every number, for programs: differences on the scale of the tests."""
    columns = [
        Column(name="study", of=_key),
        Column(name="corpus", of=lambda row: row.corpus),
        Column(name="arm", of=lambda row: row.arm),
        Column(name="metric", of=lambda row: row.of.metric.name),
        Column(name="split", of=lambda row: row.of.split),
        *(Column(name=name, of=partial(_of_cell, name)) for name in ("mean", "spread")),
        *_numbers_of_differences(found.first),
        *_numbers_over_all(found.first),
    ]
    return for_programs(columns, found.rows)


def _numbers_of_differences(first: Judged) -> list[Column]:
    """What every row with a difference has."""
    scale, metric = shown.scale_of(first.metric), first.metric
    return [
        Column(name="pairs", of=lambda c: c.difference.num_pairs).about(_tested),
        Column(name="paired_by", of=lambda r: "corpus" if r.over else r.of.replication.unit),
        Column(name=f"delta_{scale}", of=lambda c: metric.natural(c.difference.mean)).about(
            _tested
        ),
        Column(name=f"low_{scale}", of=lambda row: _ends(row)[0]),
        Column(name=f"high_{scale}", of=lambda row: _ends(row)[1]),
    ]


def _numbers_over_all(first: Judged) -> list[Column]:
    """What only rows over all corpora have."""
    over = attrgetter("over")
    return [
        Column(name="same_sign", of=lambda row: row.num_alike if row.over else None),
        Column(
            name=f"spread_of_corpora_{shown.scale_of(first.metric)}",
            of=lambda c: c.difference.spread,
        ).about(over),
        Column(name="p", of=lambda c: c.difference.p).about(over),
        *(Column(name=name, of=attrgetter(name)).about(over) for name in OF_VERDICTS),
    ]


def _tested(row: CorpusRow) -> Comparison | None:
    return row.over or (row.own and row.own.comparison)


def _ends(row: CorpusRow) -> tuple[float | None, float | None]:
    tested = _tested(row)
    ends = tested and tested.difference.interval
    return row.of.metric.natural_interval(ends) if ends else (None, None)


def _key(row: CorpusRow) -> str:
    record = row.of.record
    return record.key if row.own else study_key(record.name, record.one_of)


def _of_cell(name: str, row: CorpusRow) -> float | None:
    cell = row.own and row.own.cells.get(row.of.split)
    return cell and getattr(cell, name)


def _mean(row: CorpusRow) -> str:
    if row.own is None:
        return ""
    return shown.mean_and_spread(row.own.cells.get(row.of.split), shown.decimals(row.of))


def _delta(row: CorpusRow) -> str:
    digits = shown.decimals(row.of)
    if row.own is not None:
        return shown.delta(row.own, row.of.metric, digits)
    return changed(row.of.metric, row.over.delta, row.over.interval, digits) if row.over else NONE


def _spread(row: CorpusRow) -> str:
    """The standard deviation of the corpora's mean differences, without a sign."""
    if row.over is None or row.over.difference.spread is None:
        return ""
    metric = row.of.metric
    size = abs(metric.change(metric.natural(row.over.difference.spread)))
    return f"{size:.1f}%" if metric.in_percent else f"{size:.{shown.decimals(row.of)}f}"


def _verdict(row: CorpusRow) -> str:
    if row.over is None:
        return ""
    reason = row.over.reason
    return f"{shown.with_more(row.over)}{f' ({reason})' if reason else ''}"


def _warnings(found: OverCorpora) -> Iterator[str]:
    if found.missing:
        yield f"Not run yet on {', '.join(found.missing)}."
    short = [s.record.part for s in found.summaries if not s.whole]
    if short:
        yield f"Some results are missing on {', '.join(short)}."


def _notes(found: OverCorpora) -> Iterator[str]:
    record = found.first.record
    num_tested = sum(arm.is_tested for arm in found.first.arms)
    if len(record.corpora) < MIN_CLUSTERS:
        yield (
            f"{len(record.corpora)} corpora do not show how much a "
            f"difference varies between corpora: from {MIN_CLUSTERS} on, the table has rows over "
            "all corpora, with verdicts."
        )
    elif len({(s.metric, s.split) for s in found.summaries}) > 1:
        yield "No rows over all corpora, since their results are in different metrics or splits."
    else:
        yield (
            "The rows over all corpora are a paired t over the corpora's mean differences: each "
            "corpus counts once, however many seeds it has. Their verdicts are Holm-corrected over "
            f"{counted(num_tested, 'arm')}. The spread is the standard deviation of these means."
        )
    yield (
        "Rows of one corpus have intervals and no verdict here: those are in the corpus's own "
        f"table (ablate table {found.first.record.key})."
    )
