"""The rows of papers' tables, with the arms that reproduce them and what a store has of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ablate import papers
from ablate.compare.judged import Judged
from ablate.compare.statistics.verdicts import as_printed
from ablate.compare.study_summary import open_study
from ablate.compare.table.columns import decimals, mean_and_spread
from ablate.config.metrics import Metric
from ablate.results.verdict import not_comparable
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord
from ablate.study.coverage import CoveredRow, covered_rows

RUN, NOT_RUN, ABSENT = "with a result here", "not run here yet", "not in any study"


def rows_of(paper: str, results: Results) -> list[Line]:
    """Every row of a paper's tables, in its order."""
    return [line(paper, row, results) for row in covered_rows(paper)]


class Line(NamedTuple):
    """A row as it is shown."""

    paper: str
    table: str
    system: str
    published: str
    arms: str
    here: str
    state: str


class Results:
    """The results of the studies in a store; each study is read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.known = set(study_record.names(store))
        self.opened: dict[str, Judged] = {}

    def of(self, key: str) -> Judged | None:
        """The results of a study; None if the store does not have it."""
        if key not in self.known:
            return None
        if key not in self.opened:
            self.opened[key] = open_study(self.store, key)
        return self.opened[key]


def line(paper: str, covered: CoveredRow, results: Results) -> Line:
    """A row, with the results of its arms."""
    row = covered.row
    here = list(_given_here(covered, results))
    if not covered.arms:
        state, shown = ABSENT, row.absent
    elif here:
        state, shown = RUN, "; ".join(here)
    else:
        state, shown = NOT_RUN, "not run yet"
    arms = "; ".join(f"{arm.study}: {arm.arm}" for arm in covered.arms)
    corpus = f" ({row.corpus})"
    return Line(
        paper, row.table, row.name + corpus, row.shows or _published(row.cells), arms, shown, state
    )


def _published(cells: Sequence[papers.Cell]) -> str:
    """Return the numbers of a row: `valid 92.6, test 87.3`, after the metric's name if it is not
    perplexity."""
    numbers = []
    for metric in dict.fromkeys(cell.metric for cell in cells):
        printed = ", ".join(
            f"{cell.split or ''} {cell.printed}".strip() for cell in cells if cell.metric == metric
        )
        numbers.append(printed if metric == "ppl" else f"{metric} {printed}")
    quoted = ["quoted"] if any(cell.quoted for cell in cells) else []
    reasons = dict.fromkeys(cell.not_comparable for cell in cells if cell.not_comparable)
    remarks = [*quoted, *map(not_comparable, reasons)]
    return ", ".join(numbers) + (f" ({'; '.join(remarks)})" if remarks else "")


def _given_here(covered: CoveredRow, results: Results) -> Iterator[str]:
    """Yield the results of the row's arms here, at the scales that have its corpus."""
    for arm in covered.arms:
        for scale in arm.scales:
            judged = results.of(f"{arm.study}@{scale}")
            if judged is not None:
                # The scale "paper" follows the paper, as readers of this table expect.
                prefix = f"{scale}: " if scale != "paper" else ""
                yield from (f"{prefix}{text}" for text in _cells(judged, arm.arm, covered.row))


def _cells(judged: Judged, name: str, row: papers.Row) -> Iterator[str]:
    """Yield an arm's results of the row's metrics, each with the verdict on the printed number.

    An arm that repeats another row's model is judged by that row's number, which is named then.
    """
    arms = [arm for arm in judged.arms if arm.name == name and _is_of(judged.record, row)]
    for measured in (measured for arm in arms for measured in arm.every):
        metric = measured.metric
        digits = decimals(judged) if metric == judged.metric else metric.digits
        for split, cell in measured.cells.items():
            if not (printed := _values(row, metric, split)):
                continue
            verdict = judged.verdicts.get((name, metric.name, split))
            ours = measured.published.get(split)
            if verdict and ours is not None and ours not in printed:
                theirs = as_printed(judged.record, split, metric, ours)
                verdict = f"{verdict} (next to {theirs})"
            shown = f"{split} {mean_and_spread(cell, digits)} (n={cell.num})"
            yield f"{shown}{f', {verdict}' if verdict else ''}"


def _is_of(record: StudyRecord, row: papers.Row) -> bool:
    """Return whether a study was run on the text that the row's model is trained on."""
    text, _ = papers.trained_on(row.corpus)
    return papers.corpus_name(record.corpus, record.level) == text


def _values(row: papers.Row, metric: Metric, split: str) -> list[float]:
    """Return the row's own numbers of a metric and a split."""
    of_metric = (cell for cell in row.cells if cell.metric in metric.published)
    return [cell.value for cell in of_metric if metric.split_of(cell.split) == split]
