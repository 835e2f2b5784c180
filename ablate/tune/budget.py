"""A study's budget and its expenses so far, saved in the store to survive a restart.

GPU-hours are reserved before a trial starts and replaced by what it used when it is done. The
reservations of a driver that died stay, and the same trials resume under them, whatever is spent.
"""

from __future__ import annotations

from typing import Any

from ablate.errors import DamagedError
from ablate.store.journal import Journal
from ablate.store.store import Store, damaged
from ablate.study.words import Budget

LIMITS = ("trials", "epochs", "hours", "gpu_hours")  # of a budget; None: no limit
SAVE_SECONDS = 60.0  # the longest time that a killed driver leaves uncounted


class Ledger:
    """The account of one study."""

    def __init__(self, store: Store, key: str, budget: Budget, gpus: float) -> None:
        self.store, self.budget, self.gpus = store, budget, gpus
        self._limited = budget != Budget()
        self._key = f"studies/{key}/ledger.json"
        saved = self._saved()
        self.reserved: dict[str, float] = saved.get("reserved", {})
        self.spent: dict[str, float] = saved.get("spent", {})
        self.seconds: float = saved.get("seconds", 0.0)
        self.epochs_of: dict[str, int] = saved.get("epochs_of", {})  # by trial
        self._unsaved = 0.0  # seconds

    def _saved(self) -> dict[str, Any]:
        """The account that was saved earlier. Without a budget its damage is no error."""
        try:
            saved = self.store.read_json(self._key) or {}
            if not _is_ledger(saved):
                raise damaged(self.store, self._key, "it is not a ledger")
            return saved
        except DamagedError:
            if self._limited:
                raise
            return {}

    @property
    def trials(self) -> int:
        """Trials started; one that resumes after a crash counts once."""
        return len(self.epochs_of)

    @property
    def epochs(self) -> int:
        """Epochs trained; one that is repeated after a crash counts once."""
        return sum(self.epochs_of.values())

    def refusal(self, trial_id: str) -> str | None:
        """Why a trial may not start, or None. The hours alone stop one that has started."""
        budget = self.budget
        if trial_id in self.reserved:
            return self.overtime
        started = trial_id in self.epochs_of  # once counted, a trial is not counted again
        if budget.trials is not None and self.trials >= budget.trials and not started:
            return f"the budget of {budget.trials} trials is spent"
        if budget.epochs is not None and self.epochs >= budget.epochs:
            return f"the budget of {budget.epochs} epochs is spent"
        if budget.gpu_hours is not None:
            needed = self.gpu_hours + budget.gpu_hours_per_trial * self.gpus
            if needed > budget.gpu_hours:
                return f"the budget of {budget.gpu_hours:g} GPU-hours is spent or reserved"
        return self.overtime

    @property
    def overtime(self) -> str | None:
        """Why running trials should save and stop, or None."""
        hours = self.budget.hours
        if hours is not None and self.seconds >= hours * 3600:
            return f"the budget of {hours:g} hours is spent"
        return None

    @property
    def gpu_hours(self) -> float:
        """The GPU-hours that are spent or reserved."""
        return sum(self.spent.values()) + sum(self.reserved.values())

    def started(self, trial_id: str) -> None:
        """Reserve a trial's GPU-hours, durably, before it is launched."""
        self.epochs_of.setdefault(trial_id, 0)
        hours = 0.0 if self.budget.gpu_hours is None else self.budget.gpu_hours_per_trial
        # A trial that resumes keeps its reservation, which may have grown since.
        self.reserved.setdefault(trial_id, hours * self.gpus)
        self.write_if_limited()

    def passed(self, seconds: float) -> None:
        """Count time in which the driver ran."""
        self.seconds += seconds
        self._unsaved += seconds
        if self._unsaved >= SAVE_SECONDS:
            self.write_if_limited()

    def epoch(self, trial_id: str, number: int, seconds: float) -> None:
        """Count an epoch; a trial that exceeds its reservation reserves what it has used."""
        self.epochs_of[trial_id] = max(number, self.epochs_of.get(trial_id, 0))
        if trial_id in self.reserved:
            used = seconds / 3600 * self.gpus
            self.reserved[trial_id] = max(self.reserved[trial_id], used)
        self.write_if_limited()

    def settle(self, trial_id: str, journal: Journal | None) -> None:
        """Replace the reservation of a trial that has ended by what it used.

        The trial may have ended without a driver: its worker can finish a moment after the driver
        that reserved for it was killed. What is tried again costs its time again.
        """
        epochs = journal.epochs if journal else []
        if trial_id in self.epochs_of:
            self.epochs_of[trial_id] = max(self.epochs_of[trial_id], len(epochs))
        if self.reserved.pop(trial_id, None) is not None:
            used = _seconds(journal) / 3600 * self.gpus if journal else 0.0
            self.spent[trial_id] = self.spent.get(trial_id, 0.0) + used

    def write_if_limited(self) -> None:
        """Save the account, if the study has a budget."""
        if self._limited:
            self.write()

    def write(self) -> None:
        """Save the account."""
        self._unsaved = 0.0
        names = ("reserved", "spent", "seconds", "epochs_of")
        account = {name: getattr(self, name) for name in names}
        limits = {name: getattr(self.budget, name) for name in LIMITS}
        self.store.write_json(self._key, {**account, "limits": limits})


def _seconds(journal: Journal) -> float:
    """The seconds of a trial since it was first started, or tried again after a failure."""
    at = [0.0, *(epoch.seconds or 0.0 for epoch in journal.epochs)]
    # A trial that is tried again starts without attempts, and may still have earlier epochs.
    start = journal.attempts[0].from_epoch if journal.attempts else 0
    evaluated = (journal.outcome.seconds if journal.outcome else None) or 0.0
    return at[-1] - at[min(start, len(at) - 1)] + evaluated


def _is_ledger(saved: dict[str, Any]) -> bool:
    by_trial = [saved.get(name, {}) for name in ("reserved", "spent", "epochs_of")]
    if not all(isinstance(part, dict) for part in by_trial):
        return False
    numbers = [saved.get("seconds", 0.0), *(n for part in by_trial for n in part.values())]
    return all(isinstance(number, int | float) for number in numbers)
