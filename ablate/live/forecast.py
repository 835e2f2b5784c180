"""What a running study still takes, by the estimate of `ablate study`'s own screen; its budget."""

from __future__ import annotations

from typing import Any

from ablate.compare.text.figures import duration
from ablate.engine.forecast import Forecast
from ablate.errors import AblateError, DamagedError
from ablate.live.followed import Followed

LEDGER = "studies/{key}/ledger.json"


def seconds_left(study: Followed) -> float | None:
    """The seconds left; None while unknown, or if nothing runs."""
    if study.driver is None:
        return None
    estimate = Forecast()
    estimate.take_record(study.record)
    for journal in study.journals.values():
        if journal.status is not None:
            estimate.ended(journal)
    for journal in study.running:
        _add(estimate, journal, study)
    unfinished = [one for one in study.record.trial_ids() if study.ends.get(one) is None]
    arms = {arm.name for arm in study.record.arms}
    return estimate.seconds_left(arms, unfinished, max(1, len(estimate.running)))


def _add(estimate: Forecast, journal: Any, study: Followed) -> None:
    try:
        estimate.started(journal.trial, 0.0)
    except AblateError:  # a task's own file says how many epochs, and reading runs no such file
        return
    for epoch in journal.epochs:
        estimate.running[journal.trial.id].update(epoch, study.record.metric, 0.0)


def budget(study: Followed) -> list[tuple[str, str]]:
    """What is spent of the study's budget, and what is left; nothing without a budget."""
    try:
        ledger = study.store.read_json(LEDGER.format(key=study.key)) or {}
    except DamagedError as error:
        return [("budget", str(error))]
    hours = ledger.get("limits", {}).get("hours")
    if hours is None:  # a study without a budget keeps a ledger, too
        return []
    seconds = ledger.get("seconds", 0.0)
    left = duration(max(0.0, 3600 * hours - seconds))
    spent = [("spent of the budget", duration(seconds))] if seconds else []
    return [*spent, ("budget left", f"{left} of {duration(3600 * hours)}")]
