"""A trial's journal: one JSON file in the store that holds all that is known about it.

`{"trial", "config", "attempts", "deaths", "epochs", "outcome"}`; the whole file is
rewritten after every epoch, so that it is always consistent. A trial is done exactly when its
outcome is there.

The worker writes it while it runs. When the worker dies, its driver records the death, so that
later drivers can count them. A driver that is stopped or killed records nothing, though its workers
die with it.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ablate.config import typed
from ablate.config.identity import Trial
from ablate.errors import TrialError, nearest
from ablate.redaction import redacted
from ablate.store.attempt import Attempt
from ablate.store.epoch import Epoch
from ablate.store.numbers import without_nan
from ablate.store.outcome import Outcome, Status
from ablate.store.store import Store, damaged

LISTED = '`ablate query "SELECT trial, arm, seed, status FROM trials"` lists them.'
MOST_DEATHS = 4  # worker deaths without a new epoch before the trial counts as failed
# How the parts that have kernels were computed.
KERNELS, TORCH, UNKNOWN = "kernels", "torch", "unknown"
# How the rest was: torch compiled it, it trained beside other seeds, or "2 processes" shared it.
COMPILED, BATCH = "compiled", "one batch of seeds"
ROWS = {  # of a journal: what is read of them has these types
    "epochs": typed.rows_of(
        {"epoch": int, "seconds": float | str | None, "tokens": float | None, "event": str | None}
    ),
    "deaths": typed.rows_of({"epochs": int, "why": str}),
}


@dataclass
class Journal:
    """A trial, its attempts, its epochs and its outcome."""

    trial: Trial
    config: dict[str, Any] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    outcome: Outcome | None = None
    deaths: list[dict[str, Any]] = field(default_factory=list)  # of workers, by their driver

    @property
    def status(self) -> Status | None:
        """Completed, diverged, pruned or failed; None while the trial has no outcome."""
        return None if self.outcome is None else self.outcome.status

    @property
    def is_done(self) -> bool:
        """Return whether a run leaves the trial as it is: a failed trial is tried again."""
        return self.status not in (None, Status.FAILED)

    @property
    def metrics(self) -> Mapping[str, Any]:
        """The trial's final metrics; empty if it has none."""
        return {} if self.outcome is None else self.outcome.metrics

    @property
    def last_attempt(self) -> Attempt:
        """The latest attempt; an empty one if the trial was never started."""
        return self.attempts[-1] if self.attempts else Attempt()

    def note(self, **facts: Any) -> None:
        """Add facts to the last attempt."""
        self.attempts[-1] = replace(self.attempts[-1], **facts)

    @property
    def output(self) -> Sequence[str]:
        """The last lines that the last attempt printed or logged."""
        return self.last_attempt.output or ()

    @property
    def differs_from_lost(self) -> bool:
        """Return whether the trial ran again for its lost weights, and ended with others."""
        lost = {attempt.lost_digest for attempt in self.attempts} - {None}
        return bool(lost) and self.outcome is not None and {self.outcome.digest or ""} != lost

    @property
    def deaths_in_vain(self) -> int:
        """How many workers have died since the trial last finished a new epoch."""
        epochs = [death["epochs"] for death in self.deaths]
        return len(epochs) - epochs.index(max(epochs)) if epochs else 0

    @property
    def num_repeated(self) -> int:
        """How many epochs the last attempt had to train again because nothing had been saved."""
        last = self.last_attempt
        return 0 if last.from_epoch else last.epochs_before

    @property
    def lacks_weights(self) -> bool:
        """Return whether the trial has to run again for its weights, and has not started to."""
        return self.outcome is None and self.last_attempt.lost_digest is not None

    @property
    def repeated_for_weights(self) -> bool:
        """Return whether the last attempt repeats a whole trial, for its weights."""
        return len(self.attempts) > 1 and self.attempts[-2].lost_digest is not None

    @property
    def computed_by(self) -> frozenset[str]:
        """KERNELS, TORCH or both, if the trial uses anything that has a kernel; COMPILED, BATCH and
        "2 processes" where they hold; UNKNOWN if the record does not say."""
        last = self.last_attempt
        return ways((UNKNOWN,) if last.computed_by is None else last.computed_by, last.processes)

    @property
    def without_effect(self) -> list[str]:
        """The settings that are on, and for which its model has nothing to act on."""
        known = (attempt.without_effect or () for attempt in self.attempts)
        return list(dict.fromkeys(itertools.chain(*known)))

    @property
    def kept_outside(self) -> dict[str, list[str]]:
        """Line of a loop -> the variables that its epochs share, and that are not saved."""
        kept: dict[str, list[str]] = {}
        for each in filter(None, (attempt.kept_outside for attempt in self.attempts)):
            names = kept.setdefault(each.where, [])
            names += [name for name in each.names if name not in names]
        return kept

    @property
    def not_compiled(self) -> str | None:
        """Why it was trained without the compiler that its scale asks for."""
        known = (attempt.not_compiled for attempt in reversed(self.attempts))
        return next(filter(None, known), None)

    @property
    def went_on_without(self) -> bool:
        """Return whether the trial was interrupted, and lost the variables that its loop keeps."""
        return bool(self.kept_outside) and any(attempt.from_epoch for attempt in self.attempts)

    def write(self, store: Store) -> None:
        """Write the whole journal durably."""
        plain = {
            "trial": self.trial.to_plain(),
            "config": self.config,
            "attempts": [attempt.to_plain() for attempt in self.attempts],
            "deaths": self.deaths,
            "epochs": [epoch.to_plain() for epoch in self.epochs],
            "outcome": self.outcome and self.outcome.to_plain(),
        }
        store.write_json(key(self.trial.id), without_nan(plain))


@dataclass(frozen=True)
class _Parts:
    """What is in a journal's file besides the trial."""

    config: dict[str, Any] = field(default_factory=dict)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    epochs: list[Any] = field(default_factory=list)  # by ROWS, as deaths are
    outcome: None = None
    deaths: list[Any] = field(default_factory=list)


def key(trial_id: str) -> str:
    """Return where in the store a trial's journal is."""
    return f"trials/{trial_id}/journal.json"


def read(store: Store, trial_id: str) -> Journal | None:
    """The journal of a trial, or None if it was never started."""
    plain = store.read_json(key(trial_id))
    if plain is None:
        return None
    try:
        return _from_plain(plain, trial_id)
    except ValueError as error:
        raise damaged(store, key(trial_id), str(error)) from error


def _from_plain(plain: Mapping[str, Any], trial_id: str) -> Journal:
    others, result = {**plain}, plain.get("outcome")
    trial = typed.inside("trial", Trial.from_plain, others.pop("trial", None))
    if trial.id != trial_id:  # ids become names of files
        raise ValueError(f"it is the journal of a trial {trial.id!r}")
    if not isinstance(result, dict | None):
        raise ValueError("outcome is not a mapping")
    outcome = None if result is None else typed.inside("outcome", Outcome.from_plain, result)
    parts = typed.read(_Parts, {**others, "outcome": None})
    attempts = [
        typed.inside(f"attempts[{at}]", Attempt.from_plain, row)
        for at, row in enumerate(parts.attempts)
    ]
    for name, rows in ROWS.items():
        typed.inside(name, rows, getattr(parts, name))
    if not all("epoch" in row for row in parts.epochs):
        raise ValueError("its epochs are not numbered")
    epochs = [Epoch.from_plain(row) for row in parts.epochs]
    return Journal(trial, parts.config, attempts, epochs, outcome, parts.deaths)


def read_all(store: Store, trial_ids: Iterable[str] | None = None) -> dict[str, Journal]:
    """The journals of the given trials (default: all trials in the store), where they exist."""
    wanted = store.names("trials") if trial_ids is None else trial_ids
    journals = ((trial_id, read(store, trial_id)) for trial_id in wanted)
    return {trial_id: journal for trial_id, journal in journals if journal is not None}


def labelled(journals: Mapping[str, Journal], trials: Mapping[str, Trial]) -> dict[str, Journal]:
    """The journals with the labels that a study gives its trials.

    A stored journal has the labels of the study that ran the trial first, whose arms may have other
    names.
    """
    return {
        trial_id: replace(journal, trial=trials.get(trial_id, journal.trial))
        for trial_id, journal in journals.items()
    }


def find(store: Store, trial_id: str) -> Journal:
    """The journal of the trial with that id; a unique prefix of an id is enough."""
    known = store.names("trials")
    matching = [name for name in known if name.startswith(trial_id)]
    if len(matching) > 1:
        raise TrialError(f"'{trial_id}' matches {len(matching)} trials: {matching[:5]}.")
    journal = read(store, matching[0]) if matching else None
    if journal is None:
        hint = nearest(trial_id, known)
        suggestion = f" Did you mean {hint}?" if hint else ""
        raise TrialError(f"no trial '{trial_id}' in {store.uri}.{suggestion} {LISTED}")
    return journal


def close(store: Store, trial: Trial, status: Status, reason: str | None = None) -> Journal:
    """Record an outcome that the worker did not: pruned by a search, or failed for good."""
    journal = read(store, trial.id) or Journal(trial)
    if journal.outcome is None:
        journal.outcome = Outcome(status=status, reason=reason)
        journal.write(store)
    return journal


def died(store: Store, trial: Trial, why: str) -> Journal:
    """Record the death of a trial's worker. After MOST_DEATHS of them without a new epoch the
    trial has failed."""
    journal = read(store, trial.id) or Journal(trial)
    if journal.outcome is not None:
        return journal
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    journal.deaths.append({"epochs": len(journal.epochs), "seen": now, "why": redacted(why)})
    if journal.deaths_in_vain >= MOST_DEATHS:
        reason = f"{MOST_DEATHS} workers died without finishing another epoch; the last: {why}"
        journal.outcome = Outcome(status=Status.FAILED, reason=reason)
    journal.write(store)
    return journal


def reopened(store: Store, trial_id: str) -> Journal | None:
    """The journal; a trial that failed or was stopped early loses its outcome and is run again."""
    journal = read(store, trial_id)
    if journal is not None and journal.status in (Status.FAILED, Status.PRUNED):
        # A retry begins as if it were new: deaths before it must not count against it.
        journal.outcome, journal.attempts, journal.deaths = None, [], []
        journal.write(store)
    return journal


def run_again(store: Store, journal: Journal) -> None:
    """Take the outcome away from a trial whose saved weights are lost, so that it is run again.

    Its last attempt records the digest of the lost weights, to compare with the new ones.
    """
    if journal.outcome is not None and journal.attempts:
        journal.note(lost_digest=journal.outcome.digest or "")
    journal.outcome, journal.deaths = None, []
    journal.write(store)


def kept_outside(journals: Iterable[Journal]) -> list[str]:
    """A note for each loop whose variables a cut trial would lose, or has lost."""
    names: dict[str, dict[str, None]] = {}
    lost: dict[str, int] = {}
    for journal in journals:
        for where, kept in journal.kept_outside.items():
            names.setdefault(where, {}).update(dict.fromkeys(kept))
            lost[where] = lost.get(where, 0) + journal.went_on_without
    return [_kept_note(where, list(kept), lost[where]) for where, kept in sorted(names.items())]


def _kept_note(where: str, names: list[str], num_lost: int) -> str:
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    them = "them" if len(names) > 1 else "it"
    trials = "1 trial has" if num_lost == 1 else f"{num_lost} trials have"
    past = f" {trials} done so already, so do not believe the result." if num_lost else ""
    more = ", ..." if len(names) > 1 else ""
    return (
        f"{where}: this loop keeps {listed} from epoch to epoch, and run.epochs does not save "
        f"{them}: a trial that is cut resumes without {them}, and may end with another result."
        f'{past} Give {them} to run.epochs in a dict: kept = {{"{names[0]}": {names[0]}{more}}}.'
    )


def not_compiled(journals: Iterable[Journal]) -> list[str]:
    """A note for each reason why trials were not compiled, with their number."""
    why = Counter(journal.not_compiled for journal in journals if journal.not_compiled)
    return [
        f"{'1 trial' if number == 1 else f'{number} trials'} trained without a compiler, although "
        f"the scale has compile: {reason}. The results are as good, and took longer."
        for reason, number in sorted(why.items())
    ]


def cautions(journal: Journal) -> dict[str, str]:
    """What to note of a trial while its study runs, by what each note is about."""
    notes = dict(zip(sorted(journal.kept_outside), kept_outside([journal]), strict=True))
    if journal.not_compiled:
        notes["compile"] = (
            f"Not compiled, although the scale has compile='{journal.trial.compile}': "
            f"{journal.not_compiled}. Training goes on without."
        )
    return notes


def ways(entries: Iterable[str], processes: int | None) -> frozenset[str]:
    """KERNELS for "kernels: g++ 12.2", and so on: the compiler's version is left out."""
    found = set()
    for entry in entries:
        way, _, how = entry.partition(":")
        found |= {way} & {KERNELS, TORCH, UNKNOWN, COMPILED}
        if how.strip().startswith("one batch of"):
            found.add(BATCH)
    return frozenset(found | ({f"{processes} processes"} if (processes or 1) > 1 else set()))


def computed_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether two trials were computed in the same way, as far as their records say."""
    if UNKNOWN in one | other:
        return True
    by_part = {KERNELS, TORCH}
    if one - by_part != other - by_part:
        return False
    return not (one & by_part and other & by_part) or one == other
