"""The table over a study's corpora, for people and for programs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from ablate.compare.formats import Column, Table, for_people, for_programs
from ablate.compare.judged import Judged
from ablate.compare.statistics.clusters import MIN_CLUSTERS
from ablate.compare.statistics.over_corpora import CorpusRow, OverCorpora
from ablate.compare.table import columns as shown
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.compare.table.short_columns import drawn_column
from ablate.compare.text.figures import NONE, changed
from ablate.compare.text.lists import are, named
from ablate.store.study_record import study_key

OF_VERDICTS = {
    "p_holm": "p_holm",
    "verdict": "verdict",
    "reason": "reason",
    "within": "less_than",
}  # column -> attribute


def over_corpora_table(found: OverCorpora) -> Table:
    """The table for people: what holds over all corpora, then every corpus."""
    first = found.first
    record = first.record
    over = [row for row in found.rows if row.over]
    every_corpus = for_people(_corpus_columns(found), [row for row in found.rows if row.own])
    main = for_people(_over_columns(found), over) if over else every_corpus
    return replace(
        main,
        title=study_key(record.name, record.one_of),
        question=record.question,
        settings=[_made_of(found)],
        warnings=[*_warnings(found)],
        answer=[*_answer(over)],
        notes=[*_notes(found)],
        further=[every_corpus] if over else [],
    )


def _made_of(found: OverCorpora) -> str:
    record, metric = found.first.record, found.first.metric
    better = " (higher is better)" if metric.better == "higher" else ""
    corpora = f"{len(record.corpora)} corpora ({', '.join(record.corpora)})"
    return f"{corpora}, {record.seeds} on each, {found.first.split} {metric.shown}{better}"


def _over_columns(found: OverCorpora) -> list[Column]:
    """What differs from the base over all corpora, each of which counts once."""
    first = found.first
    over = [row.over for row in found.rows if row.over]
    level = shown.percent(over[0].coverage)
    heading = f"{shown.delta_name(first)} from {first.called(first.record.base_arm)} [{level}]"
    return [
        Column("arm", attrgetter("arm"), left=True, names=True),
        Column(heading, _delta, left=True, first=1),
        drawn_column(over, first.metric).about(attrgetter("over")),
        Column("corpora", lambda row: f"{row.num_alike}/{row.num}", spare=5),
        Column("spread of\ncorpora", _spread, spare=3),
        Column("verdict", _verdict, left=True, first=1),
    ]


def _corpus_columns(found: OverCorpora) -> list[Column]:
    """Every arm on every corpus, without a verdict."""
    first = found.first
    own = [row.own.comparison for row in found.rows if row.own]
    level = f" [{shown.coverage(first)}]" if any(one and one.interval for one in own) else ""
    heading = f"{shown.delta_name(first)} from {first.called(first.record.base_arm)}{level}"
    return [
        Column("corpus", attrgetter("corpus"), left=True, names=True),
        Column("arm", attrgetter("arm"), left=True, names=True),
        Column(first.split, _mean),
        Column(heading, _delta, left=True, first=1),
        drawn_column(own, first.metric).about(_own_or_base),
    ]


def _own_or_base(row: CorpusRow) -> ArmSummary | Comparison | None:
    return None if row.own is None else row.own if row.own.is_base else row.own.comparison


def _answer(over: Sequence[CorpusRow]) -> Iterator[str]:
    """What is decided over all corpora, in a sentence."""
    arms: dict[str, list[str]] = {}  # by verdict
    for row in over:
        if row.over:
            arms.setdefault(row.over.verdict, []).append(row.arm)
    said = (f"{named(names)} {are(names)} {verdict}" for verdict, names in arms.items())
    if arms:
        yield f"Over {over[0].num} corpora, {'; '.join(said)}."


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
        *(Column(name=name, of=attrgetter(of)).about(over) for name, of in OF_VERDICTS.items()),
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
        return "base" if row.own.is_base else shown.delta(row.own, row.of.metric, digits)
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
    if len(record.corpora) < MIN_CLUSTERS:
        yield (
            f"{len(record.corpora)} corpora do not show how much a difference varies between "
            f"corpora: from {MIN_CLUSTERS} on, there are verdicts over all of them."
        )
    elif len({(s.metric, s.split) for s in found.summaries}) > 1:
        yield "No verdict over all corpora: their results are in different metrics or splits."
    else:
        yield (
            "Each corpus counts once, however many seeds it has: a paired t over the corpora's "
            "mean differences, Holm-corrected over the arms. The spread is their standard "
            "deviation."
        )
    yield f"A corpus's own verdicts: ablate table {shlex.quote(found.first.record.key)}"
