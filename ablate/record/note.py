"""What a server has of a study, as the store remembers it, so that only changes are delivered.

It is a memory and never the truth: a note that is lost, or older than the server after a crash,
costs a second look at the server and nothing else.
"""

from __future__ import annotations

import time
from typing import Any

from ablate.errors import StoreError
from ablate.record.places import digest, redacted
from ablate.store import Store

INTERVAL = 5.0  # seconds between two writings, at least ...
SHARE = 20  # ... and this many times what one takes


class Note:
    """The delivered trials of one study on one server: id -> what of the journal is there."""

    def __init__(self, store: Store, study_key: str, uri: str) -> None:
        self._store, self._uri = store, redacted(uri)
        self._key = f"studies/{study_key}/delivered/{digest(uri)}.json"
        self._place = ""
        self._trials: dict[str, str] = {}
        self._elsewhere: dict[str, list[str]] = {}
        self._changed = False
        self._written_at, self._cost = time.monotonic(), 0.0

    def open(self, place: str, fresh: bool) -> None:
        """Remember, unless the server is `fresh` or the note speaks of another place."""
        found = self._read()
        if not fresh and found.get("place") == place:
            self._trials = dict(found.get("trials", {}))
            self._elsewhere = dict(found.get("elsewhere", {}))
        self._place = place

    def _read(self) -> dict[str, Any]:
        try:
            found = self._store.read_json(self._key)
        except StoreError:  # damaged: look at the server again
            found = None
        return found if isinstance(found, dict) else {}

    def has(self, trial_id: str, mark: str) -> bool:
        return self._trials.get(trial_id) == mark

    def settled(self, trial_id: str) -> bool:
        """Whether the trial can have no more to deliver: not even its journal need be read."""
        return self._trials.get(trial_id, "").startswith(("completed:", "pruned:"))

    def status(self, trial_id: str) -> str | None:
        """What had become of the trial when it was last delivered."""
        return self._trials.get(trial_id, "").partition(":")[0] or None

    def elsewhere(self) -> list[list[str]]:
        """The trials whose runs live with another study: id, name, that study, run id."""
        return sorted([trial_id, *place] for trial_id, place in self._elsewhere.items())

    def add(self, trial_id: str, mark: str, elsewhere: list[str] | None = None) -> None:
        """`elsewhere`: the trial's name here, the study it lives with, its run id."""
        self._trials[trial_id] = mark
        if elsewhere is not None:
            self._elsewhere[trial_id] = elsewhere
        self._changed = True
        if time.monotonic() - self._written_at > max(INTERVAL, SHARE * self._cost):
            self.write()

    def forget(self, trial_id: str) -> None:
        self._trials.pop(trial_id, None)

    def write(self) -> None:
        """Make the memory durable."""
        if not self._changed:
            return
        begun = time.monotonic()
        trials = {"trials": self._trials, "elsewhere": self._elsewhere}
        self._store.write_json(self._key, {"uri": self._uri, "place": self._place, **trials})
        self._changed = False
        self._written_at = time.monotonic()
        self._cost = self._written_at - begun
