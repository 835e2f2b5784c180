"""A study as opened from the store: its record, its journals, its table's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.compare.table.rows import Summary
from ablate.compare.table.summary import summarise
from ablate.errors import TrialError
from ablate.results.copied import copied_from
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.journal import Journal
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord


@dataclass(frozen=True)
class Material:
    """What tables, pictures and pages are made of."""

    summary: Summary
    journals: Mapping[str, Journal]
    rungs: Sequence[Summary] = ()  # of a ladder, if it is opened as a whole

    @property
    def record(self) -> StudyRecord:
        """The study's record."""
        return self.summary.record


def open_study(store: Store, name: str) -> Material:
    """The results so far of a study, by its name or `name@scale`."""
    return _opened(store, study_record.read(store, name))


def open_parts(store: Store, name: str) -> list[Material]:
    """The results so far on each corpus or rung of a scale of several; none for any other name."""
    return [_opened(store, record) for record in study_record.parts_of(store, name)]


def _opened(store: Store, record: StudyRecord) -> Material:
    journals_by_id = journals.read_all(store, record.trial_ids())
    copied = copied_from(store, record, journals_by_id)
    return Material(summarise(record, journals_by_id, copied=copied), journals_by_id)


def open_drawn(store: Store, name: str) -> Material:
    """The same as `open_begun`; for a whole ladder, its largest rung so far, with all others."""
    every = [one for one in open_parts(store, name) if one.record.rungs and one.journals]
    if not every:
        return open_begun(store, name)
    return replace(every[-1], rungs=[one.summary for one in every])


def open_begun(store: Store, name: str) -> Material:
    """The same as `open_study`; an error if no trial has been run yet."""
    material = open_study(store, name)
    if not material.journals:
        raise TrialError(f"{material.record.key}: no trial has been run yet.")
    return material
