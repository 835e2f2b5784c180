"""The same study at its other scales: deltas of listed settings next to deltas of tuned settings.

A win that is gone once every arm was tuned was a win of the settings.
"""

from __future__ import annotations

from ablate.compare.formats import Table, table_of
from ablate.compare.judged import Judged
from ablate.compare.study_summary import open_study
from ablate.compare.table import columns as shown
from ablate.store import study_record
from ablate.store.store import Store

READING = (
    "The same arms with settings as listed, and each tuned at the same budget. What is decided on "
    "the left and not on the right may have been the settings' doing. Where the right has no "
    "verdict, it is of the settings that one or two searches found; another search might find "
    "others."
)


def tables_of_other_scales(judged: Judged, store: Store) -> list[Table]:
    """A table for each other scale that is tuned where this one is not, or the other way round."""
    tables = []
    for key in study_record.names(store):
        if key != judged.record.key and key.split("@")[0] == judged.record.name:
            other = open_study(store, key)
            pair = sorted([judged, other], key=_is_tuned)  # listed first
            table = frozen_and_tuned(*pair) if other.journals else None
            tables += [] if table is None else [table]
    return tables


def _is_tuned(judged: Judged) -> bool:
    """Return whether every arm was searched before it was confirmed."""
    return judged.replication.num_searches is not None


def frozen_and_tuned(frozen: Judged, tuned: Judged) -> Table | None:
    """Both deltas side by side; None where the two are not of one corpus, or one has none yet."""
    one_corpus = frozen.record.corpus_digest == tuned.record.corpus_digest
    kinds = (_is_tuned(frozen), _is_tuned(tuned))
    if not one_corpus or frozen.unit != tuned.unit or kinds != (False, True):
        return None
    if not all(any(arm.comparison for arm in judged.arms) for judged in (frozen, tuned)):
        return None
    of_settings = "; of\nthe settings found" if tuned.replication.untestable else ""
    headings = ["arm", f"Δ frozen\n({frozen.record.scale})", "verdict"]
    headings += [f"Δ re-tuned\n({tuned.record.scale}{of_settings})", "verdict"]
    names = [arm.name for arm in tuned.arms if any(a.name == arm.name for a in frozen.arms)]
    rows = [[name, *_compared(frozen, name), *_compared(tuned, name)] for name in names]
    return table_of(headings, rows, left=["verdict"])


def _compared(judged: Judged, name: str) -> list[str]:
    arm = judged.arm(name)
    return [shown.delta(arm, judged.metric, shown.decimals(judged)), shown.verdict(arm)]
