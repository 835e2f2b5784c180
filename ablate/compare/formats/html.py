"""HTML: one page that needs no other file, or the output of a notebook's cell."""

from __future__ import annotations

from ablate.compare.formats import Table
from ablate.compare.page import render
from ablate.compare.page.parts import Section, table_parts


def write(table: Table) -> str:
    """Return the table as a page of its own."""
    return render.html([Section(table.title, [*table_parts(table)])])


def fragment(table: Table) -> str:
    """Return the table for a notebook, which has a page, colours and a font of its own."""
    return render.fragment([*table_parts(table)], table.title)
