"""What a running study still takes, by the estimate of `ablate study`'s own screen; its budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ablate.compare.text.figures import count, duration
from ablate.engine.forecast import Forecast
from ablate.errors import AblateError, DamagedError
from ablate.live.followed import Followed
from ablate.store.replication import counted

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
        ledger = study.store.read_json(LEDGER.format(key=study.key))
    except DamagedError as error:
        return [("budget", str(error))]
    limits = (ledger or {}).get("limits", {})
    if ledger is None or not any(limits.values()):  # a study without a budget keeps a ledger, too
        return []
    spent = _spent(ledger)
    texts = [_SHOWN[name](value) for name, value in spent.items() if value]
    left = [_left(name, limits[name], used) for name, used in spent.items() if limits.get(name)]
    named = {"spent of the budget": texts, "budget left": left}
    return [(name, ", ".join(each)) for name, each in named.items() if each]


_SHOWN: Mapping[str, Callable[[float], str]] = {
    "trials": lambda value: counted(int(value), "trial"),
    "epochs": lambda value: f"{count(value)} epoch{'' if value == 1 else 's'}",
    "hours": lambda value: duration(3600 * value),
    "gpu_hours": lambda value: f"{value:.3g} GPU-hours",
}


def _left(name: str, limit: float, spent: float) -> str:
    left, shown = max(0, limit - spent), _SHOWN[name]
    number = shown(left) if name == "hours" else shown(left).partition(" ")[0]
    return f"{number} of {shown(limit)}"


def _spent(ledger: Mapping[str, Any]) -> dict[str, float]:
    """What is spent, by the names of the limits."""
    epochs = ledger.get("epochs_of", {})
    gpu_hours = [*ledger.get("spent", {}).values(), *ledger.get("reserved", {}).values()]
    return {
        "trials": len(epochs),
        "epochs": sum(epochs.values()),
        "hours": ledger.get("seconds", 0.0) / 3600,
        "gpu_hours": sum(gpu_hours),
    }
