"""Templates -> HTML. Whatever users named or wrote is escaped."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2

from ablate.compare.formats import Best, Table, text_of
from ablate.compare.page.drawn import as_html
from ablate.compare.plots.geometry import height, least_width, most_width
from ablate.live.parts import Bar, Block, Link, Marked, Page, State

FOLDER = Path(__file__).parent / "templates"
LONG = 48  # characters of a cell that may take several lines
KINDS = {Link: "link", Marked: "marked", State: "state", Bar: "bar", Best: "best"}


def page(shown: Page, **more: Any) -> str:
    """Return a page as HTML."""
    return _templates().get_template(shown.template).render(page=shown, **more)


def block(shown: Block) -> str:
    """Return what is inside a block, as a page has it."""
    return _templates().get_template("block.html").render(block=shown)


@functools.cache
def _templates() -> jinja2.Environment:
    # Strict: a misspelt name in a template is an error, not an empty text.
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"height": height, "least_width": least_width, "most_width": most_width}
    made.filters |= {"cells": _cells, "kind": _kind, "as_text": text_of}
    return made


def _kind(cell: Any) -> str:
    return KINDS.get(type(cell), "")


def _cells(row: Sequence[Any], table: Table) -> Iterator[tuple[str, str, Any]]:
    """Each cell's class, its kind, and the cell; plain ones as text."""
    for index, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
        kind = _kind(cell)
        shown = cell if kind and kind != "best" else as_html(cell)
        look = "left" if column.left and index else ""
        yield ("long" if not kind and len(text_of(cell)) > LONG else look), kind, shown
