"""The same study at its other scales: deltas of listed settings next to those of tuned ones.

A win that is gone once every arm was tuned was a win of the settings.
"""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.formats import Table, table_of
from ablate.compare.material import open_study
from ablate.compare.table import columns as shown
from ablate.compare.table.rows import Summary
from ablate.compare.text.figures import NONE
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord

READING = (
    "The same arms with settings as listed, and each tuned at the same budget. What is decided on "
    "the left and not on the right may have been the settings' doing. Where the right has no "
    "verdict, it is of the settings that one or two searches found; another search might find "
    "others."
)


def tables_of_other_scales(summary: Summary, store: Store) -> list[Table]:
    """A table for each other scale that is tuned where this one is not, or the other way round."""
    tables = []
    for other in _others(summary, store):
        pair = (other, summary) if is_tuned(summary.record) else (summary, other)
        table = frozen_and_tuned(*pair)
        if table is not None:
            tables.append(table)
    return tables


def _others(summary: Summary, store: Store) -> Iterator[Summary]:
    for key in study_record.names(store):
        if key != summary.record.key and key.split("@")[0] == summary.record.name:
            material = open_study(store, key)
            if material.journals:
                yield material.summary


def is_tuned(record: StudyRecord) -> bool:
    """Return whether every arm was searched before it was confirmed."""
    return any(search.seed_index is None for search in record.searches)


def frozen_and_tuned(frozen: Summary, tuned: Summary) -> Table | None:
    """Both deltas side by side; None where the two are not of one corpus."""
    one_corpus = frozen.record.corpus_digest == tuned.record.corpus_digest
    kinds = (is_tuned(frozen.record), is_tuned(tuned.record))
    if not one_corpus or frozen.unit != tuned.unit or kinds != (False, True):
        return None
    of_settings = "; of the settings found" if tuned.replication.of_settings_found else ""
    headings = ["arm", f"Δ frozen ({frozen.record.scale})", "verdict"]
    headings += [f"Δ re-tuned ({tuned.record.scale}{of_settings})", "verdict"]
    names = [arm.name for arm in tuned.arms if any(a.name == arm.name for a in frozen.arms)]
    rows = [[name, *_delta(frozen, name), *_delta(tuned, name)] for name in names]
    return table_of(headings, rows, left=["verdict"])


def _delta(summary: Summary, name: str) -> list[str]:
    arm = summary.arm(name)
    if arm.is_base:
        return ["base arm", ""]
    compared = arm.comparison
    if compared is None:
        return [NONE, NONE]
    digits = shown.decimals(summary)
    return [shown.with_interval(compared.delta, compared.interval, digits), shown.verdict(arm)]
