"""The study's question, its table with verdicts and notes, and the reference to its trials."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.material import Material
from ablate.compare.page.parts import Section, table_parts
from ablate.compare.table import provenance
from ablate.compare.table.study_table import study_table
from ablate.store.store import Store


def sections(material: Material, store: Store) -> Iterator[Section]:
    """Store the table's contents too, so that its footnote leads somewhere."""
    key = provenance.save(store, material.summary, material.journals)
    table = study_table(material.summary, reference=provenance.reference(key))
    yield Section(table.title, [*table_parts(table)])
