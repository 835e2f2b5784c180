"""Writes a page as one HTML file that needs no other: no script, no font, no address."""

from __future__ import annotations

import base64
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ablate.compare.formats import Best, text_of
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
    loader, undefined = jinja2.FileSystemLoader(Path(__file__).parent), jinja2.StrictUndefined
    made = jinja2.Environment(
        loader=loader, undefined=undefined, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"text_of": text_of, "address": _address}
    made.tests |= {"best": lambda cell: isinstance(cell, Best), "long": _is_long}
    return made.get_template("page.html")


def _address(svg: str) -> str:
    """A drawing as an address, so that nothing in it can act on the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _is_long(cell: Any) -> bool:
    return len(text_of(cell)) > LONG
