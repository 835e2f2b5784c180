"""Show every row of the papers' tables, the arm that reproduces the row, and our number."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ablate import papers
from ablate.commands import _options
from ablate.compare import formats
from ablate.compare.formats import table_of
from ablate.compare.formats.text import terminal_width
from ablate.compare.text.plain import paragraph
from ablate.errors import ConfigError, unknown
from ablate.results.verdict import not_comparable

if TYPE_CHECKING:
    from ablate.compare.material import Material
    from ablate.config.metrics import Metric
    from ablate.store.store import Store
    from ablate.store.study_record import StudyRecord
    from ablate.study.coverage import CoveredRow

EXAMPLE = "ablate papers takase2018doc"
RUN, NOT_RUN, ABSENT = "with a result here", "not run here yet", "not in any study"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate papers`."""
    parser.add_argument("papers", nargs="*", help="ids of papers (default: all)")
    parser.add_argument(
        "--missing", action="store_true", help="only the rows that no shipped study has"
    )
    parser.add_argument(
        "--format",
        choices=formats.names(),
        default="text",
        help="output format (default: text)",
    )
    _options.add_locations(parser, "workspace", "store")


def run(options: argparse.Namespace) -> str:
    """Return the rows of the papers' tables, with the arms and numbers of the records."""
    from ablate.study.coverage import covered_rows

    for name in options.papers:
        if name not in papers.ids():
            raise ConfigError(unknown("paper", name, papers.ids()))
    store = _options.workspace(options).store
    results = _Results(store)
    lines = [
        _line(paper, row, results)
        for paper in options.papers or papers.ids()
        for row in covered_rows(paper)
    ]
    return _written(lines, options.missing, options.format)


class _Line(NamedTuple):
    """A row as it is shown."""

    paper: str
    table: str
    system: str
    published: str
    arms: str
    here: str
    state: str


class _Results:
    """The results of the studies in a store; each study is read once."""

    def __init__(self, store: Store) -> None:
        from ablate.store import study_record

        self.store = store
        self.known = set(study_record.names(store))
        self.opened: dict[str, Material] = {}

    def of(self, key: str) -> Material | None:
        """The results of a study; None if the store does not have it."""
        from ablate.compare.material import open_study

        if key not in self.known:
            return None
        if key not in self.opened:
            self.opened[key] = open_study(self.store, key)
        return self.opened[key]


def _line(paper: str, covered: CoveredRow, results: _Results) -> _Line:
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
    return _Line(
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


def _given_here(covered: CoveredRow, results: _Results) -> Iterator[str]:
    """Yield the results of the row's arms here, at the scales that have its corpus."""
    for arm in covered.arms:
        for scale in arm.scales:
            material = results.of(f"{arm.study}@{scale}")
            if material is not None:
                # The scale "paper" follows the paper, as readers of this table expect.
                prefix = f"{scale}: " if scale != "paper" else ""
                yield from (f"{prefix}{text}" for text in _cells(material, arm.arm, covered.row))


def _cells(material: Material, name: str, row: papers.Row) -> Iterator[str]:
    """Yield an arm's results of the row's metrics, each with the verdict on the printed number.

    An arm that repeats another row's model is judged by that row's number, which is named then.
    """
    from ablate.compare.statistics.verdicts import as_printed
    from ablate.compare.table.columns import decimals, mean_and_spread

    summary = material.summary
    arms = [arm for arm in summary.arms if arm.name == name and _is_of(material.record, row)]
    for measured in (measured for arm in arms for measured in arm.every):
        metric = measured.metric
        digits = decimals(summary) if metric == summary.metric else metric.digits
        for split, cell in measured.cells.items():
            if not (printed := _values(row, metric, split)):
                continue
            verdict = summary.verdicts.get((name, metric.name, split))
            judged = measured.published.get(split)
            if verdict and judged is not None and judged not in printed:
                theirs = as_printed(material.record, split, metric, judged)
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


def _written(lines: Sequence[_Line], missing: bool, form: str) -> str:
    shown = [line for line in lines if not missing or line.state == ABSENT]
    if form != "text":
        return formats.writer(form).write(table_of(_Line._fields, shown, left=_Line._fields))
    tables: dict[str, list[_Line]] = {}
    for line in shown:
        tables.setdefault(f"{line.paper}, {line.table}", []).append(line)
    sections = ["\n".join([name, *_rows(rows)]) for name, rows in tables.items()]
    # Of all rows, even if only the missing ones are shown.
    return "\n\n".join([*sections, *_counts(lines)])


def _rows(lines: Sequence[_Line]) -> Iterator[str]:
    """Yield the lines of a table: each row, and below it the row's arms and their results."""
    width = max(len(line.system) for line in lines)
    for line in lines:
        yield f"  {line.system:<{width}}  {line.published}"
        below = " · ".join(part for part in (line.arms, line.here) if part)
        yield from (f"      {text}" for text in paragraph(below, terminal_width() - 6, "  "))


def _counts(lines: Sequence[_Line]) -> Iterator[str]:
    """Yield a sentence for each paper, and one for all of them."""
    by_paper: dict[str, list[_Line]] = {}
    for line in lines:
        by_paper.setdefault(line.paper, []).append(line)
    counts = [f"{paper}: {_count(rows)}" for paper, rows in by_paper.items()]
    total = [f"All: {_count(lines)}"] if len(by_paper) > 1 else []
    yield "\n".join([*counts, *total])


def _count(lines: Sequence[_Line]) -> str:
    states: Mapping[str, int] = Counter(line.state for line in lines)
    parts = ", ".join(f"{states[state]} {state}" for state in (RUN, NOT_RUN, ABSENT))
    return f"{len(lines)} rows: {parts}."
