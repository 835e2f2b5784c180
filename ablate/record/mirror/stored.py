"""Makes the mirror's rows from the journals and records of a store.

What has changed is asked of the store's stamps: a journal is read again if its file is another one,
if the study that names the trial calls it otherwise, or if a trial without an outcome has begun or
ceased to run. A damaged file is an error that names it, as for every reader of the store.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ablate.results.labels import Label, labels_of
from ablate.results.rows import Recorded, StudyStatus, epoch_columns, study_row, trial_row
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord

BATCH = 500  # journals read at a time
UNENDED = (Status.RUNNING, Status.INTERRUPTED)


class SeenTrial(NamedTuple):
    """What is compared to tell whether a trial's row has changed."""

    stamp: list[int]
    own: str = ""  # the study that ran it first
    home: str = ""  # the study that names it, by its record here
    label: str = ""  # a hash of all that this study says of it
    status: str = ""


class SeenStudy(NamedTuple):
    """What is compared to tell whether a study's row has changed."""

    stamp: list[int]
    running: bool
    trials: list[str]
    more: bool = False  # trials are to come
    status: str = ""


class StoreSource:
    """A store. A run's id is its trial's id or its study's key; `seen` is what the next one is
    given, complete when all rows have been read."""

    notes: Sequence[str] = ()

    def __init__(self, store: Store, is_running: Callable[[str], bool]) -> None:
        self._store, self._is_running = store, is_running
        self.records: dict[str, StudyRecord] = {}  # the typed ones of studies, where needed
        self._labels: dict[str, dict[str, Label]] = {}
        self._studies: dict[str, SeenStudy] = {}
        self._trials: dict[str, SeenTrial] = {}
        self._before: dict[str, SeenStudy] = {}
        self._homes: dict[str, list[str]] = {}
        self._due: list[str] = []

    def changes(self, known: Mapping[str, Any]) -> tuple[set[str], set[str]]:
        """The runs whose rows may be new, and the runs that are gone."""
        self._before = {key: SeenStudy(*entry) for key, entry in known.get("studies", {}).items()}
        before = {one: SeenTrial(*entry) for one, entry in known.get("trials", {}).items()}
        self._look_at_studies()
        stamps = self._store.stamps([journals.key(one) for one in self._homes])
        for (one, homes), stamp in zip(self._homes.items(), stamps, strict=True):
            if stamp is not None:
                self._look_at_trial(one, homes, [*stamp], before.get(one))
        studies = {key for key, now in self._studies.items() if self._is_new(key, now)}
        gone = {*before} - {*self._trials} | {*self._before} - {*self._studies}
        return {*self._due, *studies}, gone

    def read(self) -> Iterator[list[Recorded]]:
        """Yield the rows of trials in batches, then those of studies."""
        for first in range(0, len(self._due), BATCH):
            rows = map(self._trial, self._due[first : first + BATCH])
            yield [row for row in rows if row is not None]
        yield [row for key in self._studies if (row := self._study(key)) is not None]

    @property
    def seen(self) -> dict[str, Any]:
        """What the next source of this store compares with."""
        return {"studies": self._studies, "trials": self._trials}

    def close(self) -> None:
        """Nothing to close."""

    def _look_at_studies(self) -> None:
        keys = study_record.names(self._store)
        stamps = self._store.stamps([f"studies/{key}/study.json" for key in keys])
        for key, stamp in zip(keys, stamps, strict=True):
            known, now = self._before.get(key), [*(stamp or ())]
            if known is None or known.stamp != now:
                known = self._read_record(key, now)
            self._studies[key] = known._replace(running=self._is_running(key))
        listed: dict[str, list[str]] = defaultdict(list)
        for key, study in self._studies.items():
            for one in study.trials:
                listed[one].append(key)
        self._homes = listed

    def _read_record(self, key: str, stamp: list[int]) -> SeenStudy:
        record = self._record(key)
        return SeenStudy(stamp, False, record.trial_ids(), record.to_come.total() > 0)

    def _record(self, key: str) -> StudyRecord:
        if key not in self.records:
            self.records[key] = study_record.read(self._store, key)
        return self.records[key]

    def _look_at_trial(
        self, one: str, homes: list[str], stamp: list[int], known: SeenTrial | None
    ) -> None:
        if known is None or known.stamp != stamp:
            self._trials[one] = SeenTrial(stamp)
            self._due.append(one)
            return
        home = self._home(known.own, homes)
        label = known.label if self._says_as_before(home, known) else self._said(home, one)
        running = self._studies[home].running
        status = _status(running) if known.status in UNENDED else known.status
        if (home, label, status) != (known.home, known.label, known.status):
            known = known._replace(home=home, label=label, status=status)
            self._due.append(one)
        self._trials[one] = known

    def _home(self, own: str, homes: list[str]) -> str:
        """The study that names a trial: the one that ran it first, if it lists the trial here."""
        return own if own in homes else homes[0]

    def _says_as_before(self, home: str, known: SeenTrial) -> bool:
        before = self._before.get(home)
        unchanged = before is not None and before.stamp == self._studies[home].stamp
        return home == known.home and unchanged

    def _said(self, home: str, one: str) -> str:
        record, label = self._record(home), self._label(home, one)
        said = repr((record.paper, record.tables, label))
        return hashlib.blake2b(said.encode(errors="backslashreplace"), digest_size=8).hexdigest()

    def _label(self, home: str, one: str) -> Label:
        if home not in self._labels:
            self._labels[home] = labels_of(self._record(home))
        return self._labels[home][one]

    def _trial(self, one: str) -> Recorded | None:
        stamp, journal = self._trials[one].stamp, journals.read(self._store, one)
        if journal is None:  # deleted meanwhile
            del self._trials[one]
            return None
        own = f"{journal.trial.study}@{journal.trial.scale}"
        home = self._home(own, self._homes[one])
        said, running = self._said(home, one), self._studies[home].running
        status = journal.status or _status(running)
        self._trials[one] = SeenTrial(stamp, own, home, said, status)
        return self._row(home, journal, running)

    def _row(self, home: str, journal: Journal, running: bool) -> Recorded:
        label = self._label(home, journal.trial.id)
        row = trial_row(self._record(home), journal, label, running=running)
        return Recorded(journal.trial.id, row, epoch_columns(journal))

    def _study(self, key: str) -> Recorded | None:
        now = self._studies[key] = self._studies[key]._replace(status=self._study_status(key))
        before = self._before.get(key)
        if before and (before.stamp, before.status) == (now.stamp, now.status):
            return None
        return Recorded(key, study=study_row(self._record(key), StudyStatus(now.status)))

    def _study_status(self, key: str) -> StudyStatus:
        study = self._studies[key]
        if study.running:
            return StudyStatus.RUNNING
        known = (self._trials.get(one) for one in study.trials)
        whole = all(trial is not None and trial.status not in ("", *UNENDED) for trial in known)
        return StudyStatus.FINISHED if whole and not study.more else StudyStatus.INTERRUPTED

    def _is_new(self, key: str, now: SeenStudy) -> bool:
        before = self._before.get(key)
        return before is None or (before.stamp, before.running) != (now.stamp, now.running)


def _status(running: bool) -> Status:
    return Status.RUNNING if running else Status.INTERRUPTED
