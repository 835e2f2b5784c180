"""A study as it stands in the store, read again only where its files have changed.

Journals that are whole are looked at in turns: a run that is resumed may take an outcome away.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator

from ablate.compare.material import Material
from ablate.compare.table.summary import summarise
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.states import Ends
from ablate.store.study_record import StudyRecord
from ablate.store.workspace import Workspace, running_driver

IN_TURN = 500  # journals of ended trials that are looked at each time
SLOW_SECONDS = 0.1  # a table that takes longer is made again only when a trial has ended
Stamp = tuple[int, ...] | None


class Followed:
    """A study's record, journals and driver. `refresh` reads what is new."""

    def __init__(self, workspace: Workspace, key: str) -> None:
        self.workspace, self.store = workspace, workspace.store
        self.record: StudyRecord = study_record.read(self.store, key)
        self.key = self.record.key
        self.journals: dict[str, Journal] = {}
        self.driver: str | None = None
        self._stamps: dict[str, Stamp] = {}
        self._of_record: Stamp = None
        self._turn: Iterator[str] = iter(())
        self._material: Material | None = None
        self._summary_seconds = 0.0
        self._outcomes_changed = True

    def refresh(self) -> bool:
        """Read what has changed; return whether anything has."""
        changed = self._read_record() | self._read_driver() | self._read_journals()
        if changed and (self._outcomes_changed or self._summary_seconds < SLOW_SECONDS):
            self._material = None
        return changed

    @property
    def material(self) -> Material:
        """What the study's table and figures are made of: the numbers of `ablate table`."""
        if self._material is None:
            start = time.perf_counter()
            ordered = {id: self.journals[id] for id in self._ids() if id in self.journals}
            self._material = Material(summarise(self.record, ordered), ordered)
            self._summary_seconds = time.perf_counter() - start
            self._outcomes_changed = False
        return self._material

    @property
    def ends(self) -> Ends:
        """The outcome of each trial that has started."""
        return {trial_id: journal.status for trial_id, journal in self.journals.items()}

    @property
    def running(self) -> list[Journal]:
        """The trials that run now, as their journals say."""
        if self.driver is None:
            return []
        known = (self.journals.get(trial_id) for trial_id in self._ids())
        return [journal for journal in known if journal is not None and journal.status is None]

    def _ids(self) -> list[str]:
        return self.record.trial_ids()

    def _read_record(self) -> bool:
        (stamp,) = self.store.stamps([f"studies/{self.key}/study.json"])
        if stamp == self._of_record:
            return False
        self._of_record = stamp
        self.record = study_record.read(self.store, self.key)
        self._outcomes_changed = True
        return True

    def _read_driver(self) -> bool:
        before, self.driver = self.driver, running_driver(self.workspace, self.key)
        return before != self.driver

    def _read_journals(self) -> bool:
        ids = self._ids()
        open_ones = [one for one in ids if not self._is_whole(one)]
        looked_at = list(dict.fromkeys([*open_ones, *self._in_turn(ids)]))
        stamps = self.store.stamps([journals.key(one) for one in looked_at])
        new = {
            one: stamp
            for one, stamp in zip(looked_at, stamps, strict=True)
            if stamp != self._stamps.get(one)
        }
        for one, stamp in new.items():
            self._take(one, stamp)
        return bool(new)

    def _take(self, trial_id: str, stamp: Stamp) -> None:
        before = self.journals.get(trial_id)
        journal = None if stamp is None else journals.read(self.store, trial_id)
        self._stamps[trial_id] = stamp
        if journal is None:
            self.journals.pop(trial_id, None)
        else:
            self.journals[trial_id] = journal
        if (before and before.status) != (journal and journal.status):
            self._outcomes_changed = True

    def _is_whole(self, trial_id: str) -> bool:
        journal = self.journals.get(trial_id)
        return journal is not None and journal.status == Status.COMPLETED

    def _in_turn(self, ids: Iterable[str]) -> list[str]:
        some = list(itertools.islice(self._turn, IN_TURN))
        if len(some) < IN_TURN:
            self._turn = iter([one for one in ids if self._is_whole(one)])
        return some
