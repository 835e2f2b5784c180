"""Show every row of the papers' tables, the arm that reproduces the row, and our number."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ablate import papers
from ablate.commands import _options
from ablate.compare import formats
from ablate.compare.formats import table_of
from ablate.compare.formats.text import sentences, terminal_width
from ablate.compare.text.plain import paragraph
from ablate.errors import ConfigError, unknown
from ablate.study.next_to_papers import ABSENT, NOT_RUN, RUN, Line, Results, rows_of

EXAMPLE = "ablate table papers takase2018doc"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate table papers`."""
    parser.add_argument("papers", nargs="*", help=f"among {', '.join(papers.ids())} (default: all)")
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
    for name in options.papers:
        if name not in papers.ids():
            raise ConfigError(unknown("paper", name, papers.ids()))
    results = Results(_options.workspace(options).store)
    lines = [line for paper in options.papers or papers.ids() for line in rows_of(paper, results)]
    return _written(lines, options.missing, options.format)


def _written(lines: Sequence[Line], missing: bool, form: str) -> str:
    shown = [line for line in lines if not missing or line.state == ABSENT]
    if form != "text":
        return formats.writer(form).write(table_of(Line._fields, shown, left=Line._fields))
    tables: dict[str, list[Line]] = {}
    for line in shown:
        tables.setdefault(f"{line.paper}, {line.table}", []).append(line)
    sections = ["\n".join([name, *_rows(rows)]) for name, rows in tables.items()]
    # Of all rows, even if only the missing ones are shown.
    return "\n\n".join([*sections, *_counts(lines)])


def _rows(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of a table: each row, and below it the row's arms and their results."""
    width = max(len(line.system) for line in lines)
    for line in lines:
        row = f"  {line.system:<{width}}  {line.published}"
        if len(row) <= terminal_width():
            yield row
        else:
            yield from (f"  {text}" for text in paragraph(line.system, terminal_width() - 2, "  "))
            published = paragraph(line.published, terminal_width() - 4, "  ")
            yield from (f"    {text}" for text in published)
        below = " · ".join(part for part in (line.arms, line.here) if part)
        yield from (f"      {text}" for text in paragraph(below, terminal_width() - 6, "  "))


def _counts(lines: Sequence[Line]) -> Iterator[str]:
    """Yield a sentence for each paper, and one for all of them."""
    by_paper: dict[str, list[Line]] = {}
    for line in lines:
        by_paper.setdefault(line.paper, []).append(line)
    counts = [f"{paper}: {_count(rows)}" for paper, rows in by_paper.items()]
    total = [f"All: {_count(lines)}"] if len(by_paper) > 1 else []
    yield "\n".join(sentences([*counts, *total]))


def _count(lines: Sequence[Line]) -> str:
    states: Mapping[str, int] = Counter(line.state for line in lines)
    parts = ", ".join(f"{states[state]} {state}" for state in (RUN, NOT_RUN, ABSENT))
    return f"{len(lines)} rows: {parts}."
