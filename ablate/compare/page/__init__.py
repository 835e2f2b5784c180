"""`ablate report STUDY`: everything about a study on one HTML page, made of sections.

A section is a file of the folder `sections`, and a name in `SECTIONS`. Its function

    sections(judged, store)

yields a `Section` of tables, texts and pictures, or nothing if the study has nothing for it. No
section knows of HTML: `page.html` is the template, with the style. The page needs no other file, so
it can be sent, archived, and read in ten years.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from ablate.compare.judged import Judged
from ablate.compare.page import render
from ablate.compare.page.parts import Section
from ablate.store.store import Store

FILE = "report.html"
SECTIONS = (
    "table",
    "tests",
    "scales",
    "corpora",
    "ladder",
    "figures",
    "analyses",
    "arms",
    "trials",
    "command",
)


def page(judged: Judged, store: Store, *, to_use: bool = False) -> str:
    """The whole page, whose first section is the study's table; `to_use`: with a script."""
    return render.html([*sections_of(judged, store)], to_use=to_use)


def sections_of(judged: Judged, store: Store) -> Iterator[Section]:
    """Every section that this study has something for, in the page's order."""
    for name in SECTIONS:
        file = importlib.import_module(f"{__name__}.sections.{name}")
        yield from file.sections(judged, store)
