"""Markdown with GitHub's tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ablate.compare.formats import BEST, Best, Table, text_of
from ablate.compare.text.plain import printable


def write(table: Table) -> str:
    """Return the table in Markdown, its notes as lists."""
    table = table.without_drawings()
    reference = [table.reference] if table.reference else []
    sections = [
        [f"### {_escaped(table.title)}"] if table.title else [],
        [_escaped(table.question)] if table.question else [],
        _listed(table.settings),
        _grid(table),
        _listed(
            [
                *table.answer,
                *table.below,
                *table.warnings,
                *table.notes,
                *table.cautions,
                *reference,
            ]
        ),
    ]
    for other in table.further:
        title = [f"#### {_escaped(other.title)}"] if other.title else []
        sections += [title, _grid(other), _listed(other.notes)]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _grid(table: Table) -> list[str]:
    ruled = ["---" if column.left else "---:" for column in table.columns]
    rows = [map(_cell, row) for row in table.rows]
    return [f"| {' | '.join(cells)} |" for cells in (map(_escaped, table.headings), ruled, *rows)]


def _cell(cell: object) -> str:
    text = _escaped(text_of(cell))
    return f"**{text}**" if isinstance(cell, Best) else text


def _listed(lines: Iterable[str]) -> list[str]:
    return [f"- {_escaped(line.replace(BEST, 'bold'))}" for line in lines]


def _escaped(text: str) -> str:
    """Text that is no markup: no emphasis, code, cell border, tag or link."""
    return re.sub(r"([\\`*_|]|<(?=[A-Za-z/!?])|\](?=[(\[:]))", r"\\\1", printable(text))
