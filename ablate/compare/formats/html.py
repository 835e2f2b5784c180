"""HTML: one page that needs no other file, or the output of a notebook's cell."""

from __future__ import annotations

from ablate.compare.formats import Table
from ablate.compare.page import render
from ablate.compare.page.parts import Text, first_section, table_parts


def write(table: Table) -> str:
    """Return the table as a page of its own."""
    return render.html([first_section(table)])


def fragment(table: Table) -> str:
    """Return the table for a notebook, which has a page, colours and a font of its own."""
    question = [Text(table.question)] if table.question else []
    return render.fragment([*question, *table_parts(table)], table.title)
