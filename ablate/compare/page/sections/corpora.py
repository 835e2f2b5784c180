"""The study on the other corpora of its scale, and over all of them."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.judged import Judged
from ablate.compare.page.parts import Section, table_parts
from ablate.compare.statistics.over_corpora import over_corpora
from ablate.compare.study_summary import open_parts
from ablate.compare.table.corpora_table import over_corpora_table
from ablate.store.store import Store
from ablate.store.study_record import study_key


def sections(judged: Judged, store: Store) -> Iterator[Section]:
    """The table over corpora, once the study has been run on two."""
    record = judged.record
    if not record.corpora:
        return
    every = open_parts(store, study_key(record.name, record.one_of))
    if len(every) > 1:
        table = over_corpora_table(over_corpora(every))
        yield Section("On each corpus, and over all", [*table_parts(table)])
