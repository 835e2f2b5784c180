"""When a study starts no more trials: all that ended have failed, for a reason that they share.

Not as long as some may succeed. So the trials are of five arms, or of all if there are fewer, with
the base arm, without which there is no table; they failed with one text, whatever its numbers; and
no trial of the study has ended otherwise, or runs and has reported an epoch. What a machine does
(out of memory, a worker killed) is no shared reason. Searches draw settings, of which some may be
bad, so there it takes more trials.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.replication import counted
from ablate.study.planned import Plan

NUMBER = re.compile(r"\d+")
FEWEST, FEWEST_OF_SEARCHES, MOST_ARMS = 3, 10, 5


def shared_failure(
    plan: Plan, ended: Mapping[str, Journal], status: Mapping[str, Status], learned: Collection[str]
) -> str | None:
    """What to say if all trials that ended in this run failed for one reason; else None.

    `status` also has the outcomes of earlier runs, and `learned` the trials that reported an epoch.
    """
    if any(each not in (Status.FAILED, Status.RUNNING) for each in status.values()):
        return None
    if not ended.keys() >= set(learned):
        return None
    causes = {_cause(journal) for journal in ended.values()}
    fewest = FEWEST_OF_SEARCHES if plan.searches else FEWEST
    if len(ended) < fewest or len(causes) != 1 or None in causes:
        return None
    failed = {journal.trial.arm for journal in ended.values()}
    arms = {trial.arm for trial in plan.trials} | {search.arm for search in plan.searches}
    if len(failed) < min(len(arms), MOST_ARMS) or plan.record.base_arm not in failed:
        return None
    return (
        f"no more trials start: the first {len(ended)} that ended, of {counted(len(failed), 'arm')}"
        ", failed for one reason. Once the reason is gone, the same command tries them again"
    )


def _cause(journal: Journal) -> str | None:
    """What the trial's own code failed by; None if it did not fail, or its machine may have."""
    outcome = journal.outcome
    if outcome is None or outcome.status != Status.FAILED or outcome.error or journal.deaths:
        return None
    return NUMBER.sub("0", outcome.cause)
