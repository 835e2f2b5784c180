"""A study's numbers beside its paper's: the levels, and the differences from the same arms.

Levels compare at the paper's own scale alone. A difference may hold at another scale too, so it
stands beside the paper's at any scale, and is never called reproduced (`statistics/claims.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from ablate import papers
from ablate.compare.formats import Column, Table, for_people
from ablate.compare.judged import Judged
from ablate.compare.statistics.claims import Claim, claims
from ablate.compare.statistics.verdicts import as_printed, published_cells
from ablate.compare.table import columns as shown
from ablate.compare.table.rows import ArmSummary
from ablate.compare.text.figures import NONE, count
from ablate.config.metrics import SPLIT, Metric
from ablate.results.arm import Measured
from ablate.results.verdict import not_comparable

ONE_RUN = (
    "The paper's difference is of one run of each arm: it is within one run of ours, if one more "
    "run of ours might give it."
)
WITHIN = "within one\nrun of ours"
NOT_COMPARABLE = not_comparable("")


@dataclass(frozen=True, kw_only=True)
class BesidePaper:
    """An arm's number and the paper's, on one split."""

    arm: ArmSummary
    measured: Measured
    split: str
    published: str  # as the paper prints it; empty if it prints none
    level: str  # the verdict on the published number, or why there is none
    claim: Claim | None

    @property
    def shown(self) -> bool:
        """Return whether there is a number of ours or of the paper's."""
        return bool(self.published) or self.split in self.measured.cells


def beside_paper(judged: Judged, split: str | None = None) -> Iterator[Table]:
    """A table for each metric and split of which the paper has a number.

    `split`: only this one of the metrics that have a validation and a test split.
    """
    every = {(c.arm, c.metric, c.split): c for c in claims(judged)}
    for index, metric in enumerate((judged.metric, *judged.record.columns)):
        for of in metric.splits:
            rows = [_row(judged, arm, index, of, every) for arm in judged.arms]
            if any(row.published for row in rows) and (metric.of != SPLIT or split in (None, of)):
                yield _table(judged, [row for row in rows if row.shown or not index], metric, of)


def with_notes(tables: Sequence[Table], more: Sequence[str] = ()) -> list[Table]:
    """The same tables; below the last one, how to read their column on one run, and `more`."""
    *before, last = tables
    is_read = any(column.heading == WITHIN for table in tables for column in table.columns)
    notes = [*last.notes, *([ONE_RUN] if is_read else []), *more]
    return [*before, replace(last, notes=notes)]


def _row(
    judged: Judged,
    arm: ArmSummary,
    index: int,
    split: str,
    every: dict[tuple[str, Metric, str], Claim],
) -> BesidePaper:
    record, measured = judged.record, arm.every[index]
    metric, own = measured.metric, record.arm(arm.name)
    published = own.published_columns.get(metric.name, {}) if index else own.published
    number = published.get(split)
    return BesidePaper(
        arm=arm,
        measured=measured,
        split=split,
        published="" if number is None else as_printed(record, split, metric, number),
        level="" if number is None else _level(judged, arm.name, metric, split, number),
        claim=every.get((arm.name, metric, split)),
    )


def _level(judged: Judged, arm: str, metric: Metric, split: str, published: float) -> str:
    if judged.record.published_scale:
        return judged.verdicts.get((arm, metric.name, split), NONE)
    return _another_scale(judged, metric, split, published)


def _another_scale(judged: Judged, metric: Metric, split: str, published: float) -> str:
    """Why a level at a scale that is not the paper's is not comparable."""
    record = judged.record
    cells = [c for c in published_cells(record, split, metric) if c.value == published]
    theirs = {papers.trained_on(cell.corpus)[0] for cell in cells}
    own = papers.corpus_name(record.corpus, record.level)
    corpus = f", corpus {record.corpus}" if record.corpus and theirs and own not in theirs else ""
    return not_comparable(f"scale {record.scale}{corpus}")


def _table(judged: Judged, rows: Sequence[BesidePaper], metric: Metric, split: str) -> Table:
    record = judged.record
    source = ", ".join([record.paper, *record.tables])
    what = f"{split} {metric.shown}" if metric.of == SPLIT else metric.shown
    levels = {row.level for row in rows if row.level}
    several = len(levels) > 1
    return for_people(
        [*_columns(judged, rows, metric), *([_LEVEL] if several else [])],
        rows,
        title=f"{record.key} beside {source}: {what}",
        notes=[] if several else [_of_every(level) for level in levels],
    )


def _of_every(level: str) -> str:
    if level.startswith(NOT_COMPARABLE):
        return f"Levels are {level}."
    return f"Every level: {level}."


_LEVEL = Column("level", lambda row: row.level, left=True, wraps=True)


def _columns(judged: Judged, rows: Sequence[BesidePaper], metric: Metric) -> Iterator[Column]:
    digits = shown.decimals(judged) if metric == judged.metric else metric.digits
    found = [row.claim for row in rows if row.claim]

    def ours(row: BesidePaper) -> str:
        return shown.mean_and_spread(row.measured.cells.get(row.split), digits)

    yield Column("arm", lambda row: row.arm.name, left=True, names=True)
    if metric == judged.metric:
        yield Column("params", lambda row: count(row.arm.num_parameters))
    yield from (column.about(attrgetter("arm")) for column in shown.completed(judged))
    yield Column("ours", ours, first=1)
    yield Column("paper", lambda row: row.published, first=1)
    if found:
        others = {claim.against for claim in found}
        base = "" if len(others) > 1 else f" from {judged.called(*others)}"
        yield Column(f"Δ{base},\nours", lambda row: _ours(judged, row), first=1)
        yield Column("paper's", lambda row: row.claim.shown_theirs if row.claim else "", first=1)
        yield Column(WITHIN, _within_one_run, left=True, first=1)
        if len(others) > 1:
            yield Column("from", lambda row: row.claim.against if row.claim else "", left=True)


def _ours(judged: Judged, row: BesidePaper) -> str:
    """Our difference; on the split that decides with the interval that the study's table has."""
    if row.claim is None:
        return ""
    if row.measured is row.arm.measured and row.split == judged.split:
        return shown.delta(row.arm, judged.metric, judged.metric.digits)
    return row.claim.shown_ours


def _within_one_run(row: BesidePaper) -> str:
    within = row.claim and row.claim.within_one_run
    return {True: "yes", False: "no", None: ""}[within]
