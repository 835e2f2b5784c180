"""A trial's journal: one plain file in the store that says all that is known about it.

`{"trial", "config", "attempts", "epochs", "outcome"}`; it is rewritten whole after every epoch,
so that what is in it is always consistent. A trial is done exactly when its outcome is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.errors import TrialError, nearest
from ablate.identity import Trial
from ablate.store import Store, damaged

LISTED = '`ablate query "SELECT trial, arm, seed, status FROM trials"` lists them.'
COMPLETED, DIVERGED, PRUNED, FAILED = "completed", "diverged", "pruned", "failed"


@dataclass
class Journal:
    """What a trial is, what was tried, what it has learnt."""

    trial: Trial
    config: dict[str, Any] = field(default_factory=dict)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    outcome: dict[str, Any] | None = None

    @property
    def status(self) -> str | None:
        """completed, diverged, pruned or failed; None while the trial has no outcome."""
        return None if self.outcome is None else self.outcome["status"]

    def write(self, store: Store) -> None:
        plain = {
            "trial": self.trial.to_plain(),
            "config": self.config,
            "attempts": self.attempts,
            "epochs": self.epochs,
            "outcome": self.outcome,
        }
        store.write_json(key(self.trial.id), without_nan(plain))


def key(trial_id: str) -> str:
    return f"trials/{trial_id}/journal.json"


def read(store: Store, trial_id: str) -> Journal | None:
    """The journal of a trial, or None if nobody has begun it."""
    plain = store.read_json(key(trial_id))
    if plain is None:
        return None
    try:
        return Journal(**{**plain, "trial": Trial.from_plain(plain["trial"])})
    except (TypeError, KeyError) as error:
        raise damaged(store, key(trial_id), f"{type(error).__name__}: {error}") from error


def read_all(store: Store, trial_ids: Iterable[str] | None = None) -> dict[str, Journal]:
    """The journals there are, of all trials in the store or of those named."""
    wanted = store.names("trials") if trial_ids is None else trial_ids
    found = ((trial_id, read(store, trial_id)) for trial_id in wanted)
    return {trial_id: journal for trial_id, journal in found if journal is not None}


def find(store: Store, trial_id: str) -> Journal:
    """The journal of the trial with that id, or with that beginning of one."""
    known = store.names("trials")
    matching = [name for name in known if name.startswith(trial_id)]
    if len(matching) > 1:
        raise TrialError(
            f"'{trial_id}' is the beginning of {len(matching)} trials: {matching[:5]}."
        )
    found = read(store, matching[0]) if matching else None
    if found is None:
        hint = nearest(trial_id, known)
        meant = f" Did you mean {hint}?" if hint else ""
        raise TrialError(f"no trial '{trial_id}' in {store.uri}.{meant} {LISTED}")
    return found


def close(store: Store, trial: Trial, status: str, **details: Any) -> Journal:
    """Give a trial an outcome from outside: pruned by a search, or lost for good."""
    journal = read(store, trial.id) or Journal(trial)
    if journal.outcome is None:
        journal.outcome = {"status": status, "metrics": {}, **details}
        journal.write(store)
    return journal


def reopened(store: Store, trial_id: str) -> Journal | None:
    """The journal, with a failure taken back: what failed before is tried again."""
    journal = read(store, trial_id)
    if journal is not None and journal.status == FAILED:
        journal.outcome, journal.attempts = None, []
        journal.write(store)
    return journal


def without_nan(data: Any) -> Any:
    """Plain data in which numbers that JSON has no word for are written as text."""
    if isinstance(data, Mapping):
        return {name: without_nan(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [without_nan(item) for item in data]
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    return data
