"""Would early stopping have lost the winner? From the curves of recorded searches.

Early stopping compares trials after 1, 3, 9, ... epochs, and continues the best third. Where curves
cross later, it stops the trial that would have won. The curves of a search that stopped no trial
say whether early stopping would have done so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.config.metrics import Metric
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.replication import counted
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord

THIRD = 3  # one trial of this many continues
FEWEST = 2 * THIRD  # trials of a search, for a third of them to say something


def warning(record: StudyRecord, store: Store) -> str:
    """Say how often early stopping would have stopped the winner of the study's own searches,
    recorded at any scale; empty if it never would have, or none is recorded."""
    at = [lost_at(curves) for curves in _recorded(record, store)]
    lost = [epoch for epoch in at if epoch is not None]
    if not lost:
        return ""
    epochs = " or ".join(map(str, sorted({*lost})))
    return (
        f"Early stopping would have stopped the winner of {len(lost)} of "
        f"{counted(len(at), 'recorded search')} of {record.name}, after epoch {epochs}: its curves "
        "cross later. Instead: leave out early_stopping, or search fewer trials to their end."
    )


def lost_at(curves: Sequence[Sequence[float]]) -> int | None:
    """The epoch after which the trial with the lowest last loss is not in the best third."""
    winner = min(range(len(curves)), key=lambda index: curves[index][-1])
    epoch = 1
    while epoch < len(curves[winner]):
        there = [curve[epoch - 1] for curve in curves if len(curve) >= epoch]
        better = sum(loss < curves[winner][epoch - 1] for loss in there)
        if better >= max(1, len(there) // THIRD):
            return epoch
        epoch *= THIRD
    return None


def _recorded(record: StudyRecord, store: Store) -> Iterator[list[list[float]]]:
    """The curves of each search of the study in which no trial was stopped."""
    for key in study_record.names(store):
        if key.partition("@")[0] != record.name:
            continue
        other = study_record.read(store, key)
        for search in other.searches:
            if search.seed_index is None and other.metric == record.metric:
                known = journals.read_all(store, search.trials)
                whole = [j for j in known.values() if j.status == Status.COMPLETED]
                curves = [c for j in whole if (c := _curve(j, record.metric))]
                if len(curves) >= FEWEST and all(j.status != Status.PRUNED for j in known.values()):
                    yield curves


def _curve(journal: Journal, metric: Metric) -> list[float]:
    losses = (metric.loss_of(epoch.metrics, "valid") for epoch in journal.epochs)
    return [loss for loss in losses if loss is not None]
