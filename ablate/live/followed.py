"""A study as it stands in the store, read again only where its files have changed.

Journals that are whole are looked at in turns: a run that is resumed may take an outcome away.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ablate.compare.judged import Judged
from ablate.compare.plots.figure import Figure
from ablate.errors import DamagedError
from ablate.live import figures
from ablate.results.copied import copied_from
from ablate.results.labels import Label, labels_of
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.states import Ends
from ablate.store.study_record import StudyRecord
from ablate.store.workspace import Workspace, running_driver

T = TypeVar("T")
IN_TURN = 500  # journals of ended trials that are looked at each time
SLOW_SECONDS = 0.05
SHARE = 10  # a table that takes a second to make is made again after ten at the earliest
Stamp = tuple[int, ...] | None


class Followed:
    """A study's record, journals and driver. `refresh` reads what is new."""

    def __init__(self, workspace: Workspace, key: str) -> None:
        self.workspace, self.store = workspace, workspace.store
        self.record: StudyRecord = study_record.read(self.store, key)
        self.key = self.record.key
        self.journals: dict[str, Journal] = {}
        self.damaged: dict[str, str] = {}  # trial -> what is wrong with its journal, and the remedy
        self.driver: str | None = None
        self._stamps: dict[str, Stamp] = {}
        self._of_record: Stamp = None
        self._turn: Iterator[str] = iter(())
        self._judged: Judged | None = None
        self._due = 0.0  # when the table may be made again
        self._outdated, self._waits = True, False
        self._made: dict[str, Any] = {}
        self._copied: tuple[Any, StudyRecord | None] = (None, None)
        self._labels: dict[str, Label] | None = None

    def refresh(self) -> bool:
        """Read what has changed; return whether anything has."""
        changed = self._read_record() | self._read_driver() | self._read_journals()
        now = time.monotonic()
        if changed:
            self._outdated, self._waits = True, now < self._due
            return True
        if self._waits and now >= self._due:  # the table may be made again now
            self._waits = False
            return True
        return False

    @property
    def is_running(self) -> bool:
        """Return whether the study has a driver now."""
        return self.driver is not None

    @property
    def judged(self) -> Judged:
        """What the study's table and figures are made of: the numbers of `ablate table`."""
        ordered = {id: self.journals[id] for id in self._ids() if id in self.journals}
        start = time.monotonic()
        due = start >= self._due or self._is_final
        if self._judged is None or (self._outdated and due):
            copied = self._copied_from(ordered)
            self._judged, self._outdated = Judged(self.record, ordered, copied=copied), False
            self._made, self._due = {}, 0.0
        return self._judged

    @property
    def _is_final(self) -> bool:
        """Return whether every trial has ended: nobody waits for the last table."""
        known = (self.journals.get(trial_id) for trial_id in self._ids())
        return all(journal is not None and journal.status is not None for journal in known)

    def _copied_from(self, ordered: dict[str, Journal]) -> StudyRecord | None:
        """What `open_study` finds, looked for again if a record or an arm's first trial is new."""
        keys = [k for k in self.store.names("studies") if k.split("@")[0] == self.record.name]
        stamps = self.store.stamps([f"studies/{key}/study.json" for key in keys])
        arms = [arm.name for arm in self.record.arms]
        by_arm = (self.record.trials_of(name) for name in arms)
        num_started = sum(any(t.id in ordered for t in trials) for trials in by_arm)
        known = keys, stamps, num_started
        if self._copied[0] != known:
            self._copied = known, copied_from(self.store, self.record, ordered)
        return self._copied[1]

    def figure(self, name: str) -> Figure | None:
        """A figure by its name; None if the study has nothing for it."""
        figure = self.once(name, lambda judged: figures.one(judged, name))
        if name != figures.CURVES:
            return figure
        return figures.with_running(figure, self.record, self.journals)

    def once(self, name: str, make: Callable[[Judged], T]) -> T:
        """What is made of the study's table, made once for each new table."""
        judged, start = self.judged, time.monotonic()
        if name not in self._made:
            self._made[name] = make(judged)
            took = time.monotonic() - start
            if took > SLOW_SECONDS:
                self._due = max(self._due, start) + SHARE * took
        return self._made[name]

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

    @property
    def labels(self) -> dict[str, Label]:
        """The names that the study gives its trials."""
        if self._labels is None:
            self._labels = labels_of(self.record)
        return self._labels

    def _ids(self) -> list[str]:
        return self.record.trial_ids()

    def _read_record(self) -> bool:
        (stamp,) = self.store.stamps([f"studies/{self.key}/study.json"])
        if stamp == self._of_record:
            return False
        self._of_record = stamp
        self.record = study_record.read(self.store, self.key)
        self._labels = None
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
        self._stamps[trial_id], journal = stamp, None
        self.damaged.pop(trial_id, None)
        try:
            journal = None if stamp is None else journals.read(self.store, trial_id)
        except DamagedError as error:  # one file; the rest of the study is as it was
            self.damaged[trial_id] = str(error)
        if journal is None:
            self.journals.pop(trial_id, None)
        else:
            self.journals[trial_id] = journal

    def _is_whole(self, trial_id: str) -> bool:
        journal = self.journals.get(trial_id)
        return journal is not None and journal.status == Status.COMPLETED

    def _in_turn(self, ids: Iterable[str]) -> list[str]:
        some = list(itertools.islice(self._turn, IN_TURN))
        if len(some) < IN_TURN:
            self._turn = iter([one for one in ids if self._is_whole(one)])
        return some
