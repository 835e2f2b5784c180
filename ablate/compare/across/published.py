"""Published numbers beside ours, each with a verdict or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ablate import papers
from ablate.compare.across.row import Place, Row
from ablate.compare.statistics.verdicts import as_printed, published_cells
from ablate.config.metrics import SPLITS, TRAIN, Metric
from ablate.results.verdict import not_comparable
from ablate.store.study_record import ArmRecord, StudyRecord

Verdicts = Mapping[tuple[str, str, str], str]  # (arm, metric, split) -> the verdict
UNREAD = "no verdict: its trials are not in this store"


def add_published(
    rows: Mapping[str, Row],
    record: StudyRecord,
    units: Mapping[str, str],
    verdicts: Callable[[str], Verdicts],
) -> None:
    """Add the paper's numbers to a study's rows, each with its verdict.

    `verdicts` returns a study's verdicts, by its key; none if its trials cannot be read.
    """
    known = verdicts(record.key) if record.published_scale else {}
    for arm, metric, split, value in _reproduces(record):
        if arm.name in rows:
            name = (arm.name, metric.name, split)
            verdict = known.get(name, UNREAD)
            if not record.published_scale:
                verdict = _another_scale(record, metric, split, value)
            place = _place(rows[arm.name], record, metric, split, units)
            printed = as_printed(record, split, metric, value)
            rows[arm.name].beside[place] = (printed, verdict)


def _reproduces(record: StudyRecord) -> Iterator[tuple[ArmRecord, Metric, str, float]]:
    """Every published number that an arm of the study is to reproduce."""
    for arm in record.arms:
        numbers = [(record.metric, arm.published)]
        numbers += [(m, arm.published_columns.get(m.name, {})) for m in record.columns]
        for metric, published in numbers:
            for split, value in published.items():
                if split in metric.splits:
                    yield arm, metric, split, value


def _cells(record: StudyRecord, metric: Metric, split: str, value: float) -> list[papers.Cell]:
    return [cell for cell in published_cells(record, split, metric) if cell.value == value]


def _another_scale(record: StudyRecord, metric: Metric, split: str, value: float) -> str:
    """Why a number of a scale that is not the paper's is not comparable."""
    theirs = {papers.trained_on(cell.corpus)[0] for cell in _cells(record, metric, split, value)}
    own = papers.corpus_name(record.corpus, record.level)
    corpus = f", corpus {record.corpus}" if record.corpus and theirs and own not in theirs else ""
    return not_comparable(f"scale {record.scale}{corpus}")


def _place(
    row: Row, record: StudyRecord, metric: Metric, split: str, units: Mapping[str, str]
) -> Place:
    """Where our own number is, if there is one."""
    unit = metric.shown
    if metric != record.metric:
        unit = next((units[name] for name in metric.published if name in units), unit)
    shown = split if split in (*SPLITS, TRAIN) else ""
    corpora = [corpus for corpus, *of, _ in row.values if of == [shown, unit]]
    return (*corpora, record.corpus)[0], shown, unit


def reproduced(records: Sequence[StudyRecord]) -> dict[papers.Cell, list[str]]:
    """Which studies have an arm for a paper's number."""
    known: dict[papers.Cell, list[str]] = {}
    for record in records:
        for _, metric, split, value in _reproduces(record):
            for cell in _cells(record, metric, split, value):
                studies = known.setdefault(cell, [])
                studies += [] if record.name in studies else [record.name]
    return known


def verdict_of(cell: papers.Cell, studies: Mapping[papers.Cell, Sequence[str]], any_: bool) -> str:
    """The text beside a number in a paper's own rows; `any_`: whether studies were named, too."""
    if cell.not_comparable:
        return not_comparable(cell.not_comparable)
    if cell in studies:
        return f"see {', '.join(studies[cell])}"
    return "no arm here" if any_ else ""
