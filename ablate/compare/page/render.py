"""Writes a page as one HTML file that needs no other: no font, no address, nothing to fetch.

An interactive page has plotly's script within, 5 MB; a still one has drawings as SVG and no script
at all. A content security policy names the page's own scripts by their hashes: no other runs.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.compare.page.cells import cells, headings
from ablate.compare.page.parts import Drawing, Part, Picture, Progress, Section
from ablate.compare.plots import interactive, static
from ablate.compare.plots.geometry import height, least_width, most_width
from ablate.errors import MissingDependency, needs

POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "style-src 'unsafe-inline'; img-src data: blob:"
)
FOLDER = Path(__file__).parent


def html(sections: Sequence[Section], *, to_use: bool = False) -> str:
    """Return a page as text; whatever users named or wrote is escaped.

    Its figures are pictures, or, `to_use`, drawn by a script so that a reader can point at them.
    """
    template = _template("page.html")  # first, as it says if jinja2 is missing
    if not to_use:
        sections = [replace(each, parts=[*map(_still, each.parts)]) for each in sections]
    figures = [part for each in sections for part in each.parts if isinstance(part, Drawing)]
    scripts = [interactive.script(), interactive.starter()] if figures else []
    styles = [stylesheet(), *_styles_of_figures(figures)]
    return template.render(
        sections=sections,
        figures=[(each.name, interactive.as_json(each.figure)) for each in figures],
        scripts=scripts,
        styles=styles,
        policy="; ".join([POLICY, *_allowed(scripts)]),
    )


def fragment(parts: Sequence[Part | Progress], title: str = "") -> str:
    """Return tables and texts as HTML for the output of a notebook's cell, in its own colours."""
    style = (FOLDER / "fragment.css").read_text("utf-8")
    return _template("fragment.html").render(parts=parts, title=title, style=style)


def stylesheet() -> str:
    """Return the look of every page, also of one that is served."""
    return (FOLDER / "page.css").read_text("utf-8")


def _still(part: Part) -> Part:
    """A figure as a picture; anything else as it is."""
    if not isinstance(part, Drawing):
        return part
    figure = part.figure
    svg = static.written(static.drawn(figure), "svg").decode()
    return Picture(svg, figure.title, figure.caption, figure.table)


def _styles_of_figures(figures: Sequence[Drawing]) -> list[str]:
    return [interactive.stylesheet()] if figures else []


def _allowed(scripts: Sequence[str]) -> Iterator[str]:
    """The rule that lets these scripts run, and none if there are none."""
    if scripts:
        digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
        hashes = (f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
        yield " ".join(["script-src", *hashes])


def _template(name: str) -> Any:
    return environment().get_template(name)


@functools.cache
def environment(*folders: Path) -> Any:
    """Return what reads templates, of these folders before those of reports."""
    try:
        import jinja2
    except ModuleNotFoundError:
        raise MissingDependency(needs("pages need", "jinja2")) from None
    # Strict: a misspelt name in the template is an error, not an empty text.
    loader, undefined = jinja2.FileSystemLoader([*folders, FOLDER]), jinja2.StrictUndefined
    made = jinja2.Environment(
        loader=loader, undefined=undefined, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"cells": cells, "headings": headings, "address": _address}
    made.globals |= {"height": height, "least_width": least_width, "most_width": most_width}
    return made


def _address(svg: str) -> str:
    """A drawing as an address, so that nothing in it can act on the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
