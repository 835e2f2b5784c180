"""The same study at its other scales, where one is tuned and the other is not."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.judged import Judged
from ablate.compare.page.parts import Grid, Section, Text
from ablate.compare.table.other_scales import READING, tables_of_other_scales
from ablate.store.store import Store


def sections(judged: Judged, store: Store) -> Iterator[Section]:
    """Deltas of listed settings next to deltas of tuned settings."""
    tables = tables_of_other_scales(judged, store)
    if tables:
        yield Section("Frozen and re-tuned", [*map(Grid, tables), Text(READING, "small")])
