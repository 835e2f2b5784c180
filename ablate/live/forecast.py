"""What a running study still takes, by the estimate of `ablate study`'s own screen; its budget."""

from __future__ import annotations

from typing import Any

from ablate.compare.text.figures import count, duration
from ablate.engine.forecast import Forecast
from ablate.errors import AblateError
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


def spent(study: Followed) -> list[tuple[str, str]]:
    """What the study's ledger says of its budget; nothing without one."""
    ledger = study.store.read_json(LEDGER.format(key=study.key)) or {}
    epochs = ledger.get("epochs_of", {})
    if not epochs:
        return []
    hours = sum(ledger.get("spent", {}).values()) + sum(ledger.get("reserved", {}).values())
    texts = [f"{len(epochs)} trials", f"{count(sum(epochs.values()))} epochs"]
    texts += [duration(ledger.get("seconds", 0.0))] + ([f"{hours:.3g} GPU-hours"] if hours else [])
    return [("spent of the budget", ", ".join(texts))]
