"""The same study at its other scales: deltas of listed settings beside those of tuned ones."""

from __future__ import annotations

from collections.abc import Iterator

from ablate import journal as journals
from ablate import study_record
from ablate.compare.curves import frozen_and_tuned, is_tuned
from ablate.compare.rows import Summary
from ablate.compare.summary import summarise
from ablate.compare.table import Block
from ablate.store import Store


def frozen_beside_tuned(summary: Summary, store: Store) -> list[Block]:
    """A table for each other scale that is tuned where this one is not, or the other way round."""
    found = []
    for other in _others(summary, store):
        pair = (other, summary) if is_tuned(summary.record) else (summary, other)
        both = frozen_and_tuned(*pair)
        if both is not None:
            found.append(both)
    return found


def _others(summary: Summary, store: Store) -> Iterator[Summary]:
    for key in study_record.names(store):
        if key != summary.record.key and key.split("@")[0] == summary.record.name:
            record = study_record.read(store, key)
            known = journals.read_all(store, record.trial_ids())
            if known:
                yield summarise(record, known)
