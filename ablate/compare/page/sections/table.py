"""The study's question, its table with verdicts and notes, and the reference to its trials."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.judged import Judged
from ablate.compare.page.parts import Section, first_section, made_parts
from ablate.compare.table import provenance
from ablate.compare.table.full_table import full_table
from ablate.compare.table.study_table import study_table
from ablate.store.store import Store


def sections(judged: Judged, store: Store) -> Iterator[Section]:
    """Store the table's contents too, so that its footnote leads somewhere."""
    key = provenance.save(store, judged)
    table = study_table(judged, reference=provenance.reference(key))
    yield first_section(table, made_parts(full_table(judged)))
