"""The messages about a study's trials that failed or diverged."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.replication import counted
from ablate.store.study_record import StudyRecord

MOST_REASONS = 5  # `ablate status` has all
SHOWN_LINES = 10  # of what a trial printed; its journal has more


def troubles(record: StudyRecord, journals: Mapping[str, Journal], there: str = "") -> str:
    """Return one message for all trials that failed or diverged, with each reason once. `there`:
    options that the command which it names needs to find the same store."""
    expected = _expected(record, journals)
    known = [journals[trial] for trial in expected if trial in journals]
    lost = [journal for journal in known if journal.status in (Status.FAILED, Status.DIVERGED)]
    if not lost:
        return ""
    reasons = _reasons(lost)
    count = f"{len(lost)} of {len(expected)} trials failed or diverged"
    lines = [f"{count}; the table shows them as missing:"]
    for failed in [*reasons.values()][:MOST_REASONS]:
        first = failed[0]
        reason = first.outcome and (first.outcome.frames or first.outcome.reason)
        lines.append(f"{len(failed)} x {first.status}, {first.trial.name} first: {reason}")
        lines += last_output(first)
    if len(reasons) > MOST_REASONS:
        more = counted(len(reasons) - MOST_REASONS, "more reason")
        lines.append(f"{more}: ablate status {record.key}{there}")
    return "\n".join(lines)


def first_failed(record: StudyRecord, journals: Mapping[str, Journal]) -> Journal | None:
    """The first trial that failed; None if none did, since a trial that diverged is a result."""
    known = (journals[trial] for trial in _expected(record, journals) if trial in journals)
    return next((journal for journal in known if journal.status == Status.FAILED), None)


def remedies(failed: Journal | None, workspace: str | None, store: str | None) -> Iterator[str]:
    """What to do about trials that failed, for a script or a notebook."""
    if failed is not None:
        places = {"--workspace": workspace, "--store": store}
        named = [word for option, at in places.items() if at for word in (option, at)]
        command = shlex.join(["ablate", "status", failed.trial.id, "--log", *named])
        yield f"All that the first one printed: {command}"
    yield "The same call tries failed trials again; run(..., check=False) returns the table anyway."


def _reasons(lost: Sequence[Journal]) -> dict[str, list[Journal]]:
    """Group the failed trials by cause, without trials that failed because their parent did."""
    reasons: dict[str, list[Journal]] = {}
    for journal in lost:
        outcome = journal.outcome
        if outcome is not None and not outcome.orphan_of:  # else its parent's reason says it
            reasons.setdefault(outcome.cause, []).append(journal)
    return reasons


def _expected(record: StudyRecord, journals: Mapping[str, Journal]) -> list[str]:
    """Return the listed trials, and those of searches in which no trial succeeded."""
    listed = [trial.id for trial in record.trials]
    succeeded = {t for t, journal in journals.items() if journal.status == Status.COMPLETED}
    failed = [s.trials for s in record.searches if succeeded.isdisjoint(s.trials)]
    return list(dict.fromkeys([*listed, *(trial for trials in failed for trial in trials)]))


def last_output(journal: Journal) -> list[str]:
    """The last lines that a trial printed or logged, below a line that says so; none if its reason
    ends with them."""
    last = [f"    {line}" for line in journal.output[-SHOWN_LINES:]]
    reason = (journal.outcome and journal.outcome.reason) or ""
    if last and journal.output[-1] in reason.splitlines():
        return []
    return ["  Its last output:", *last] if last else []
