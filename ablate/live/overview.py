"""How far every study of a store has come, from a glance at each journal.

A store may have 100,000 trials: they are read a part at a time, and those of a study that no driver
runs are not looked at again.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from ablate.errors import AblateError, DamagedError
from ablate.live.summaries import Summaries, Summary
from ablate.store import glance, states, study_record
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.store.study_record import StudyRecord
from ablate.store.workspace import Workspace, running_driver

MOMENT_SECONDS = 0.3  # for which a look lasts at most: a page waits for it
SOME = 200  # journals that are read between two looks at the clock


@dataclass
class Progress:
    """A study and the state of its trials."""

    record: StudyRecord
    driver: str | None = None
    ends: dict[str, Status | None] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)  # trials whose journals are damaged
    stamps: dict[str, tuple[int, ...] | None] = field(default_factory=dict)

    @property
    def damaged(self) -> int:
        """The number of journals that cannot be read."""
        return len(self.unreadable)

    @property
    def counts(self) -> Counter[Status]:
        """The number of trials in each state."""
        return states.counts(self.record, None, self.ends, self.driver is not None)


class Overview:
    """Every study of a workspace's store. `refresh` reads what is new, for a moment at most."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._store = workspace, workspace.store
        self.studies: dict[str, Progress] = {}
        self.unreadable: dict[str, str] = {}  # study -> why
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._records: list[str] = []  # studies whose records are still to be read
        self._journals: list[tuple[str, str]] = []  # studies and trials still to be looked at
        self._summaries, self._num_made = Summaries(self._store), 0

    @property
    def num_unread(self) -> int:
        """How many studies have not been read to their end."""
        return len({*self._records, *(key for key, _ in self._journals)})

    def summary(self, study: Progress) -> Summary:
        """What a study says, as far as that is known; read again when a trial has ended."""
        return self._summaries.of(study.record.key, frozenset(study.ends.items()))

    @property
    def is_running(self) -> bool:
        """Return whether any study runs now."""
        return any(study.driver is not None for study in self.studies.values())

    def refresh(self) -> bool:
        """Read what has changed, or its beginning; return whether anything has."""
        end = time.monotonic() + MOMENT_SECONDS
        before, self._num_made = self._num_made, self._summaries.num_made
        changed = self._find_records() or self._num_made != before
        while self._records and time.monotonic() < end:
            changed |= self._take(self._records.pop(0))
        for key, study in self.studies.items():
            changed |= self._look(key, study)
        while self._journals and time.monotonic() < end:
            some, self._journals = self._journals[:SOME], self._journals[SOME:]
            changed |= self._read(some)
        return changed

    def _find_records(self) -> bool:
        """Queue the records that are new or have changed; return whether any have gone."""
        keys = self._store.names("studies")
        stamps = self._store.stamps([f"studies/{key}/study.json" for key in keys])
        known = {key: stamp for key, stamp in zip(keys, stamps, strict=True) if stamp is not None}
        new = [key for key, stamp in known.items() if stamp != self._stamps.get(key)]
        self._records += [key for key in new if key not in self._records]
        gone = self.studies.keys() - known.keys()
        for key in gone:
            del self.studies[key]
        self._stamps = known
        return bool(gone)

    def _take(self, key: str) -> bool:
        """Read a record, and queue its trials."""
        try:
            record = study_record.read(self._store, key)
        except AblateError as error:
            self.unreadable[key] = str(error)
            return True
        self.unreadable.pop(key, None)
        self.studies.setdefault(key, Progress(record)).record = record
        self._queue(key, record.trial_ids())
        return True

    def _look(self, key: str, study: Progress) -> bool:
        """Look for a driver; queue the trials that may have changed."""
        before, study.driver = study.driver, running_driver(self._workspace, key)
        if before != study.driver:
            self._queue(key, study.record.trial_ids())
        elif study.driver is not None:
            ids = study.record.trial_ids()
            self._queue(key, [one for one in ids if study.ends.get(one) is None])
        return before != study.driver

    def _queue(self, key: str, ids: list[str]) -> None:
        if not any(waiting == key for waiting, _ in self._journals):
            self._journals += [(key, id) for id in ids]

    def _read(self, some: list[tuple[str, str]]) -> bool:
        """Read those of these journals that have changed; return whether any have."""
        stamps = self._store.stamps([journals.key(id) for _, id in some])
        changed = False
        for (key, id), stamp in zip(some, stamps, strict=True):
            study = self.studies.get(key)
            if study is not None and stamp != study.stamps.get(id):
                study.stamps[id] = stamp
                changed |= self._glance(study, id)
        return changed

    def _glance(self, study: Progress, id: str) -> bool:
        study.unreadable.discard(id)
        found: dict[str, Status | None] = {}
        try:
            found = glance.ends(self._store, [id])
        except DamagedError:
            study.unreadable.add(id)
        study.ends |= found
        if not found:
            study.ends.pop(id, None)
        return True
