"""How many trials of a study, or of an arm, are in each state: for `ablate status` and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ablate.store.outcome import Status
from ablate.store.study_record import StudyRecord

STATES = (
    *(Status.COMPLETED, Status.RUNNING, Status.PRUNED, Status.DIVERGED, Status.FAILED),
    Status.LEFT,
)
Ends = Mapping[str, Status | None]  # trial -> its outcome; None: it has started and not ended


def state(trial_id: str, ends: Ends, alive: bool) -> Status:
    """Return the state of a trial. `alive`: a driver runs the study."""
    if trial_id not in ends:
        return Status.LEFT
    # Without a driver no trial runs: it was cut, and the next run resumes it.
    return ends[trial_id] or (Status.RUNNING if alive else Status.LEFT)


def counts(record: StudyRecord, arm: str | None, ends: Ends, alive: bool) -> Counter[Status]:
    """Count the trials of an arm, or of all arms, by state.

    Those that its searches have yet to start are left, too. Arms may share trials: of all arms each
    counts once.
    """
    counted = Counter(dict.fromkeys(STATES, 0))  # in this order
    counted.update(state(trial_id, ends, alive) for trial_id in record.trial_ids(arm))
    counted[Status.LEFT] += record.to_come.total() if arm is None else record.to_come[arm]
    return counted
