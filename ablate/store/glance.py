"""How a trial has ended, read from its journal without parsing the rest of it.

A study may have 100,000 journals of some kilobytes, and `ablate status` counts them. A journal has
a line for each of its values, its own keys are indented by one space, and no JSON string contains
the end of a line, so the lines that are needed can be found. A file is read, and its checksum
verified, as for anything else. One without a checksum, or with other lines, is parsed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ablate.store import checksum, journal
from ablate.store.outcome import Status
from ablate.store.store import Store

SEALED = f'\n "{checksum.FIELD}": "{checksum.MARK}'.encode()
OUTCOME, NO_OUTCOME = b'\n "outcome": {\n', b'\n "outcome": null'
ATTEMPTS, NO_ATTEMPTS = b'\n "attempts": [\n', b'\n "attempts": []'
STATUS = b'\n  "status": "'
STATUSES = {status.encode(): status for status in Status}


class Glance(NamedTuple):
    """What a journal says of its trial's end."""

    status: Status | None  # None: the trial has no outcome
    num_attempts: int

    @property
    def is_troubled(self) -> bool:
        """Return whether the rest of the journal says what went wrong."""
        return self.num_attempts > 1 or self.status in (Status.FAILED, Status.DIVERGED)


def read_all(store: Store, trial_ids: Iterable[str]) -> dict[str, Glance]:
    """Those of the trials that have a journal."""
    glances = ((trial_id, read(store, trial_id)) for trial_id in trial_ids)
    return {trial_id: glance for trial_id, glance in glances if glance is not None}


def read(store: Store, trial_id: str) -> Glance | None:
    """Return a trial's glance, or None without a journal."""
    data = store.read(journal.key(trial_id))
    if data is None:
        return None
    return _from_lines(data) or _from_whole(store, trial_id)


def _from_whole(store: Store, trial_id: str) -> Glance | None:
    known = journal.read(store, trial_id)
    return None if known is None else Glance(known.status, len(known.attempts))


def _from_lines(data: bytes) -> Glance | None:
    """None if the lines are not those that `Journal.write` writes."""
    attempts, outcome = data.find(ATTEMPTS), data.find(OUTCOME)
    if SEALED not in data or (attempts < 0 and NO_ATTEMPTS not in data):
        return None
    num_attempts = 0
    if attempts >= 0:
        num_attempts = data.count(b"\n  {", attempts, data.find(b"\n ]", attempts))
    if outcome < 0:
        return Glance(None, num_attempts) if NO_OUTCOME in data else None
    at = data.find(STATUS, outcome, data.find(b"\n }", outcome)) + len(STATUS)
    status = STATUSES.get(data[at : data.find(b'"', at)])
    return None if status is None else Glance(status, num_attempts)
