"""The findings of the study's analyses, next to the paper's."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.formats import table_of
from ablate.compare.judged import Judged
from ablate.compare.page.parts import Grid, Picture, Section, small
from ablate.store import findings
from ablate.store.store import Store


def sections(judged: Judged, store: Store) -> Iterator[Section]:
    """A section for each finding that was saved when the study ended."""
    for found in findings.read(store, judged.record.key):
        paper = [f"Paper: {found.paper}"] if found.paper else []
        picture = [Picture(found.svg, found.title)] if found.svg else []
        table = Grid(table_of(found.columns, found.rows), folded=f"{len(found.rows)} rows")
        yield Section(found.title, [*small(paper), *picture, *small(found.notes), table])
