"""How far every study of a store has come, from a glance at each journal.

A store may have 100,000 trials: those that have ended are not looked at again while no driver runs
their study.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ablate.errors import DamagedError
from ablate.store import glance, states, study_record
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.store.study_record import StudyRecord
from ablate.store.workspace import Workspace, running_driver


@dataclass
class Progress:
    """A study and the state of its trials."""

    record: StudyRecord
    driver: str | None = None
    ends: dict[str, Status | None] = field(default_factory=dict)
    damaged: int = 0  # journals that cannot be read
    stamps: dict[str, tuple[int, ...] | None] = field(default_factory=dict)

    @property
    def counts(self) -> Counter[Status]:
        """The number of trials in each state."""
        return states.counts(self.record, None, self.ends, self.driver is not None)


class Overview:
    """Every study of a workspace's store. `refresh` reads what is new."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._store = workspace, workspace.store
        self.studies: dict[str, Progress] = {}
        self.unreadable: dict[str, str] = {}  # study -> why
        self._stamps: dict[str, tuple[int, ...]] = {}

    def refresh(self) -> bool:
        """Read what has changed; return whether anything has."""
        keys = self._store.names("studies")
        stamps = self._store.stamps([f"studies/{key}/study.json" for key in keys])
        known = {key: stamp for key, stamp in zip(keys, stamps, strict=True) if stamp is not None}
        gone = self.studies.keys() - known.keys()
        for key in gone:
            del self.studies[key]
        changed = [self._read(key, stamp) for key, stamp in known.items()]
        self._stamps = known
        return any(changed) or bool(gone)

    def _read(self, key: str, stamp: tuple[int, ...] | None) -> bool:
        new = stamp != self._stamps.get(key)
        if new:
            try:
                self._take(key)
            except DamagedError as error:
                self.unreadable[key] = str(error)
        study = self.studies.get(key)
        if study is None:
            return new
        before, study.driver = study.driver, running_driver(self._workspace, key)
        new |= before != study.driver
        return self._look(study, all_of_them=new) or new

    def _take(self, key: str) -> None:
        record = study_record.read(self._store, key)
        self.unreadable.pop(key, None)
        if key in self.studies:
            self.studies[key].record = record
        else:
            self.studies[key] = Progress(record)

    def _look(self, study: Progress, all_of_them: bool) -> bool:
        """Read the journals that have changed since the last look."""
        ids = study.record.trial_ids()
        some = ids if all_of_them else [one for one in ids if study.ends.get(one) is None]
        stamps = self._store.stamps([journals.key(one) for one in some])
        pairs = zip(some, stamps, strict=True)
        new = {one: stamp for one, stamp in pairs if stamp != study.stamps.get(one)}
        study.stamps |= new
        for one in new:
            try:
                seen = glance.read(self._store, one)
            except DamagedError:
                study.damaged += 1
                continue
            if seen is None:
                study.ends.pop(one, None)
            else:
                study.ends[one] = seen.status
        return bool(new)
