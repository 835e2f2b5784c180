"""Print the papers' hyperparameter tables, and search spaces of tasks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ablate.commands import _options
from ablate.commands._answers import OneSpace, SpaceRow, Spaces
from ablate.compare.formats import json, text
from ablate.compare.text.plain import paragraph
from ablate.space import space
from ablate.space.row import Row
from ablate.space.space import Space

EXAMPLE = "ablate show spaces takase2018doc_table2"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate show spaces`."""
    parser.add_argument("name", nargs="?", help="a file of search_spaces/ (default: list them)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="also check every row against the techniques, or against the task's settings",
    )
    _options.add_json(parser)
    _options.add_code(parser, "with --check: a file that registers the space's task or techniques")


def run(options: argparse.Namespace) -> str:
    """Return the list of search spaces, or one space, checked on request."""
    if options.name is None:
        return json.written(_listed()) if options.format == "json" else list_spaces()
    loaded = space.load(options.name)
    if options.check:
        _options.executed_code(options)
        loaded.check()
    if options.format == "json":
        return json.written(Spaces(spaces=(_answer(loaded, whole=True),)))
    passed = (
        "\n\nChecked: every field exists and accepts its row's values." if options.check else ""
    )
    return show_space(loaded) + passed


def _listed() -> Spaces:
    """Return every space without its rows; one that cannot be read says why."""
    return Spaces(
        spaces=tuple(
            _answer(one, whole=False) if isinstance(one, Space) else _broken(name, str(one))
            for name, one in space.index().items()
        )
    )


def _broken(name: str, why: str) -> OneSpace:
    return OneSpace(name=name, origin="", tables=(), open=False, broken=why, num_rows=0, rows=None)


def _answer(shown: Space, *, whole: bool) -> OneSpace:
    return OneSpace(
        name=shown.name,
        origin=_origin(shown),
        tables=tuple(shown.tables),
        open=shown.open,
        broken="",
        num_rows=len(shown.rows),
        rows=tuple(map(_answer_row, shown.rows)) if whole else None,
    )


def _answer_row(row: Row) -> SpaceRow:
    varies = bool(row.same_as or row.by_corpus)
    return SpaceRow(
        name=row.name,
        field=row.field or None,
        values=None if varies else str(row.domain),
        by_corpus={corpus: str(domain) for corpus, domain in (row.by_corpus or {}).items()},
        same_as=row.same_as,
        condition=str(row.condition or ""),
        description=row.description or "",
        note=row.note or "",
        source=row.source or "",
        printed=row.printed,
    )


def list_spaces() -> str:
    """List every space, one line each."""
    headings = ["Name", "Paper", "Rows", "Kind", "Tables"]
    rows = [
        [s.name, "", "", "broken", s.broken]
        if s.broken
        else [s.name, s.origin, str(s.num_rows), "open" if s.open else "fixed", ", ".join(s.tables)]
        for s in _listed().spaces
    ]
    return "\n".join(text.aligned(headings, rows))


def show_space(shown: Space, width: int | None = None) -> str:
    """Show a space as its paper's table: rows in the paper's order, then rows not on its page."""
    title = f"{shown.name}: {', '.join([_origin(shown), *shown.tables])}"
    width = text.terminal_width() if width is None else width
    rows, corpora = shown.rows, shown.corpora
    if sum(bool(row.by_corpus) for row in rows) * 5 < len(rows):
        corpora = ()  # too few rows differ to deserve columns
    printed = [row for row in rows if row.printed]
    ours = [_cells(row, corpora, row.source) for row in rows if not row.printed]
    values = list(corpora) or ["Values"]
    last = "Description" if any(row.description for row in printed) else ""
    body = [_cells(row, corpora, row.description) for row in printed]
    lines = [*paragraph(title, width), *paragraph(shown.note, width), ""]
    lines += text.aligned(["Parameter", *values, last], body, width)
    if ours:
        lines += ["", "Not in the printed table"]
        lines += text.aligned(["Parameter", *values, "Source"], ours, width)
    fields = [[row.name, row.field] for row in rows if row.field]
    lines += ["", *text.aligned(["Parameter", "Field of ablate"], fields, width)]
    notes = [f"{row.name}: {row.note}" for row in rows if row.note]
    # Of rows that are not printed, the source has a column.
    notes += [f"{row.name}: from {row.source}" for row in printed if row.source]
    conditions = [f"{row.name}: {row.condition}" for row in rows if row.condition]
    lines += _section("Only when", conditions, width)
    return "\n".join([*lines, *_section("Notes", notes, width)])


def _origin(shown: Space) -> str:
    return shown.paper or f"task {shown.task}"


def _cells(row: Row, corpora: Sequence[str], last: str) -> list[str]:
    if row.same_as is not None:
        values = [f"= {row.same_as}"] * max(1, len(corpora))
    elif row.by_corpus and corpora:
        values = [str(row.by_corpus[corpus]) for corpus in corpora]
    elif row.by_corpus:
        values = ["; ".join(f"{domain} ({corpus})" for corpus, domain in row.by_corpus.items())]
    else:  # the same in every column
        values = [str(row.domain)] * max(1, len(corpora))
    return [f"{row.name}{row.marker}", *values, last]


def _section(title: str, items: Sequence[str], width: int) -> list[str]:
    lines = [f"  {line}" for item in items for line in paragraph(item, width - 2, "    ")]
    return ["", title, *lines] if lines else []
