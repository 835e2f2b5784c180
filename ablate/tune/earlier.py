"""Recorded trials that other code, defaults or data made than today's: asked about, never passed
off as today's.

A study that meets such trials stops before it trains anything, unless it is told to keep them as
they are, or to train them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from ablate.config.identity import Trial
from ablate.errors import DamagedError, StudyError
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.claims import Claims
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.replication import counted
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord
from ablate.study.planned import Plan
from ablate.trial import checkpoint
from ablate.trial.provenance.changes import Change, Changes
from ablate.tune.choice import Choice

MOST_SHOWN = 12  # changes in a message
WAYS = (
    "To show their results all the same: --keep (in Python keep=True); the table then says so. To "
    "delete their results and train them again: --again (again=True)."
)


class Earlier:
    """The trials of earlier code that a study has met, and what is done with them."""

    def __init__(self, store: Store, choice: Choice = Choice.ASK) -> None:
        self.store, self.choice = store, choice
        self._changes, self._found = Changes(), dict[str, list[Change]]()
        self.again: set[str] = set()  # trials whose results were deleted, to be trained again

    def meet(self, plan: Plan) -> None:
        """Look at all that is recorded of a study's trials, before anything is trained."""
        trials = {**_searched(plan, self.store), **{trial.id: trial for trial in plan.trials}}
        for trial in trials.values():
            self._look(trial, journals.read(self.store, trial.id))
        if self._found and self.choice == Choice.ASK:
            raise StudyError(self._question(plan.record.key, trials))
        if self.choice == Choice.AGAIN:
            self._delete(trials)

    def may_use(self, trial: Trial, journal: Journal) -> bool:
        """Return whether the outcome of a trial counts that the study meets while it runs."""
        return not self._look(trial, journal) or self.choice == Choice.KEEP

    def stopped(self, trial: Trial) -> str:
        """Why a study stops that meets such a trial while it runs."""
        changes = ", ".join(map(str, self._found[trial.id]))
        return f"{trial.name}, of another study, is of earlier code: {changes}. {WAYS}"

    def _look(self, trial: Trial, journal: Journal | None) -> list[Change]:
        if journal is None or not self._counts(journal):
            return []
        if trial.id not in self._found and (found := self._changes.since(trial, journal)):
            self._found[trial.id] = found
        return self._found.get(trial.id, [])

    def _counts(self, journal: Journal) -> bool:
        """Return whether a trial has a result, or work that a next attempt would go on with."""
        if journal.outcome is not None:
            return journal.status != Status.FAILED
        return bool(journal.epochs) and self.store.exists(checkpoint.last_key(journal.trial.id))

    def _delete(self, trials: Mapping[str, Trial]) -> None:
        """Delete the results of these trials, and of all that build on them."""
        self.again = {*self._found}
        for trial in trials.values():  # parents come before their children
            if self.again & {*trial.parent_ids()}:
                self.again.add(trial.id)
        claims = Claims(self.store)
        for trial_id in self.again:
            if claims.claim(trial_id):  # else another driver runs it now
                self.restart(trial_id)
                claims.release(trial_id)
        self._found.clear()

    def restart(self, trial_id: str) -> None:
        """Delete all that is recorded of a trial."""
        self.store.delete(f"trials/{trial_id}")
        self._found.pop(trial_id, None)

    def note(self, trial_ids: Collection[str]) -> list[str]:
        """What a table says of a study's trials of earlier code; nothing if there are none."""
        found = {trial: self._found[trial] for trial in trial_ids if trial in self._found}
        if not found:
            return []
        names = dict.fromkeys(change.name for change in sorted({*chain(*found.values())}))
        of, verb = counted(len(trial_ids), "trial"), "is" if len(found) == 1 else "are"
        return [f"{len(found)} of {of} {verb} of earlier code: {', '.join(names)}."]

    def _question(self, key: str, trials: Mapping[str, Trial]) -> str:
        of = f"{len(self._found)} of {counted(len(trials), 'trial')}"
        head = f"{key}: {of} on record are not of today's code, defaults and data."
        return "\n".join([head, *self._lines(trials), f"Nothing was trained. {WAYS}"])

    def _lines(self, trials: Mapping[str, Trial]) -> Iterator[str]:
        """Each change, and how many trials of which arms it concerns."""
        changed: dict[Change, Counter[str]] = {}
        for trial_id, changes in self._found.items():
            for change in changes:
                changed.setdefault(change, Counter())[trials[trial_id].arm] += 1
        for change, arms in sorted(changed.items())[:MOST_SHOWN]:
            yield f"  {change}: {', '.join(_of_arms(arms))}"
        if len(changed) > MOST_SHOWN:
            yield f"  and {len(changed) - MOST_SHOWN} more"


def _of_arms(arms: Counter[str]) -> Iterable[str]:
    return (f"{counted(num, 'trial')} of {arm}" for arm, num in arms.items())


def _searched(plan: Plan, store: Store) -> dict[str, Trial]:
    """The trials of the plan's searches and of their winners, as an earlier run recorded them."""
    record = _recorded(plan, store) if plan.searches else None
    if record is None:
        return {}
    keys = tuple(search.key for search in plan.searches)  # one that began again has a longer key
    searches = [search for search in record.searches if search.key.startswith(keys)]
    arms = {search.arm for search in searches}
    ids = [*(trial.id for trial in record.trials if trial.arm in arms)]
    found = journals.read_all(store, [*chain(*(search.trials for search in searches)), *ids])
    return {trial_id: journal.trial for trial_id, journal in found.items()}


def _recorded(plan: Plan, store: Store) -> StudyRecord | None:
    try:
        exists = study_record.exists(store, plan.record.key)
        return study_record.read(store, plan.record.key) if exists else None
    except DamagedError:  # this run writes it again
        return None
