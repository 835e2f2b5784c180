"""Writes a page as one HTML file that needs no other: no script, no font, no address."""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ablate.compare.formats import Best, Table, text_of
from ablate.compare.page.parts import Section
from ablate.errors import MissingDependency, needs

LONG = 40  # characters of a cell that may take several lines


def html(sections: Sequence[Section]) -> str:
    """Return a page as text; whatever users named or wrote is escaped."""
    return _template().render(sections=sections)


@functools.cache
def _template() -> Any:
    try:
        import jinja2
    except ModuleNotFoundError:
        raise MissingDependency(needs("pages need", "jinja2")) from None
    # Strict: a misspelt name in the template is an error, not an empty text.
    loader, undefined = jinja2.FileSystemLoader(Path(__file__).parent), jinja2.StrictUndefined
    made = jinja2.Environment(
        loader=loader, undefined=undefined, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"cells": _cells, "address": _address}
    return made.get_template("page.html")


def _address(svg: str) -> str:
    """A drawing as an address, so that nothing in it can act on the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _cells(row: Sequence[Any], table: Table) -> Iterator[tuple[str, str, bool]]:
    """Each cell's class, text, and whether it is the best; quicker here than in the template."""
    for index, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
        text = text_of(cell)
        kind = "long" if len(text) > LONG else "left" if column.left and index else ""
        yield kind, text, isinstance(cell, Best)
