"""What was delivered of a study to a server, noted in the store so that only changes are sent.

It is a cache and never the truth: a note that is lost, or older than the server after a crash,
costs another query of the server and nothing else. A server may also be older than the note, if a
copy of its database was put back: then the server says which of the noted trials it has.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from ablate.errors import StoreError
from ablate.record.places import digest
from ablate.redaction import redacted
from ablate.store.outcome import Status
from ablate.store.store import Store

INTERVAL = 5.0  # at least this many seconds between two writes ...
SHARE = 20  # ... and this many times what one write takes
SETTLED = (f"{Status.COMPLETED}:", f"{Status.PRUNED}:")  # prefixes of their marks


class Note:
    """The trials of a study that a server has received: id -> mark of the delivered journal."""

    def __init__(self, store: Store, study_key: str, uri: str) -> None:
        self._store, self._uri = store, redacted(uri)  # a URI may have a password
        self._key = f"studies/{study_key}/delivered/{digest(uri)}.json"
        self._location = ""
        self._trials: dict[str, str] = {}
        self._elsewhere: dict[str, list[str]] = {}
        self._changed = False
        self._written_at, self._cost = time.monotonic(), 0.0

    def open(self, location: str, fresh: bool) -> None:
        """Load the note, unless the server is `fresh` or the note is about another location."""
        saved = self._read()
        if not fresh and saved.get("place") == location:
            self._trials = dict(saved.get("trials", {}))
            self._elsewhere = dict(saved.get("elsewhere", {}))
        self._location = location

    def _read(self) -> dict[str, Any]:
        try:
            saved = self._store.read_json(self._key)
        except StoreError:  # damaged: query the server again
            saved = None
        return saved if saved is not None and _is_note(saved) else {}

    def has(self, trial_id: str, mark: str) -> bool:
        """Return whether the server got this very state of a trial's journal."""
        return self._trials.get(trial_id) == mark

    def agrees(self, trial_id: str, mark: str) -> bool:
        """The same as `has`, but a mark of an older version, which lacks the last part, agrees."""
        return self._trials.get(trial_id) in (mark, mark.rpartition(":")[0])

    def is_settled(self, trial_id: str) -> bool:
        """Return whether the trial was delivered with a result: only another run of it has more."""
        return self._trials.get(trial_id, "").startswith(SETTLED)

    def status(self, trial_id: str) -> str | None:
        """The trial's status when it was last delivered."""
        return self._trials.get(trial_id, "").partition(":")[0] or None

    def elsewhere(self) -> list[list[str]]:
        """The trials whose runs belong to another study: id, name, that study, run id."""
        return sorted([trial_id, *run] for trial_id, run in self._elsewhere.items())

    def add(self, trial_id: str, mark: str, elsewhere: list[str] | None = None) -> None:
        """Note a delivered trial, and save the note from time to time.

        `elsewhere`: the trial's name here, the study that its run belongs to, its run id.
        """
        self._trials[trial_id] = mark
        if elsewhere is not None:
            self._elsewhere[trial_id] = elsewhere
        self._changed = True
        if time.monotonic() - self._written_at > max(INTERVAL, SHARE * self._cost):
            self.write()

    def keep(self, trial_ids: Collection[str]) -> None:
        """Forget the trials that are not among these."""
        for trial_id in self._trials.keys() - set(trial_ids):
            self.forget(trial_id)

    def forget(self, trial_id: str) -> None:
        """Drop a trial, which is then delivered again."""
        self._trials.pop(trial_id, None)
        self._changed = True

    def write(self) -> None:
        """Write the note to the store."""
        if not self._changed:
            return
        start = time.monotonic()
        trials = {"trials": self._trials, "elsewhere": self._elsewhere}
        self._store.write_json(self._key, {"uri": self._uri, "place": self._location, **trials})
        self._changed = False
        self._written_at = time.monotonic()
        self._cost = self._written_at - start


def _is_note(saved: dict[str, Any]) -> bool:
    trials, elsewhere = saved.get("trials", {}), saved.get("elsewhere", {})
    return (
        isinstance(trials, dict)
        and isinstance(elsewhere, dict)
        and all(isinstance(mark, str) for mark in trials.values())
        and all(isinstance(run, list) and len(run) == 3 for run in elsewhere.values())
    )
