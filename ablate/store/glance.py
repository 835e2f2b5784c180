"""How a trial has ended, read from its journal without parsing the rest of it.

A study may have 100,000 journals of some kilobytes, and `ablate status` counts them. A journal has
a line for each of its values, its own keys are indented by one space, and no JSON string contains
the end of a line, so the lines that are needed can be found. A file is read, and its checksum
verified, as for anything else. One without a checksum, or with other lines, is parsed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from ablate.store import checksum, journal
from ablate.store.outcome import Status
from ablate.store.store import Store

SEALED = f'\n "{checksum.FIELD}": "{checksum.MARK}'.encode()
OUTCOME, NO_OUTCOME = b'\n "outcome": {\n', b'\n "outcome": null'
ATTEMPTS, NO_ATTEMPTS = b'\n "attempts": [\n', b'\n "attempts": []'
STATUS = b'\n  "status": "'
TROUBLED = (Status.FAILED, Status.DIVERGED)
STATUSES = {status.encode(): status for status in Status}


def ends(store: Store, trial_ids: Iterable[str]) -> dict[str, Status | None]:
    """Trial -> its status, None without an outcome; of those that have a journal."""
    return ends_and_troubled(store, trial_ids)[0]


def ends_and_troubled(
    store: Store, trial_ids: Iterable[str]
) -> tuple[dict[str, Status | None], list[str]]:
    """The same, and the trials of which the rest of the journal says what went wrong."""
    ends: dict[str, Status | None] = {}
    troubled: list[str] = []
    for trial_id in trial_ids:
        data = store.read(journal.key(trial_id))
        seen = data and (_from_lines(data) or _from_whole(store, trial_id))
        if seen:
            ends[trial_id], num_attempts = seen
            if num_attempts > 1 or ends[trial_id] in TROUBLED:
                troubled.append(trial_id)
    return ends, troubled


def _from_whole(store: Store, trial_id: str) -> tuple[Status | None, int] | None:
    known = journal.read(store, trial_id)
    return known and (known.status, len(known.attempts))


def _from_lines(data: bytes) -> tuple[Status | None, int] | None:
    """The status and the number of attempts; None if the lines are not those of `Journal.write`."""
    attempts, outcome = data.find(ATTEMPTS), data.find(OUTCOME)
    if SEALED not in data or (attempts < 0 and NO_ATTEMPTS not in data):
        return None
    num_attempts = 0
    if attempts >= 0:
        num_attempts = data.count(b"\n  {", attempts, data.find(b"\n ]", attempts))
    if outcome < 0:
        return (None, num_attempts) if NO_OUTCOME in data else None
    at = data.find(STATUS, outcome, data.find(b"\n }", outcome)) + len(STATUS)
    status = STATUSES.get(data[at : data.find(b'"', at)])
    return None if status is None else (status, num_attempts)
