"""Which trial comes next, and what follows from each that ends: a state machine without Ray.

`local.py` and `cluster.py` drive the same `Schedule`, so a study takes the same decisions in a
debugger and on a cluster. What it decides is in the store before it acts on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ablate import journal as journals
from ablate import study_record
from ablate.identity import Trial
from ablate.journal import COMPLETED, FAILED, PRUNED, Journal
from ablate.plan import Plan, PlannedSearch, with_chains
from ablate.store import Store
from ablate.train import checkpoint
from ablate.tune.budget import Ledger
from ablate.tune.search import ArmSearch


class Listener(Protocol):
    """Somebody who is told what happens (the screen, the recorder); never asked."""

    def started(self, trial: Trial) -> None: ...
    def progress(self, trial_id: str, epoch: Mapping[str, Any] | None) -> None: ...
    def finished(self, trial_id: str, journal: Journal) -> None: ...
    def retried(self, trial_id: str, why: str) -> None: ...
    def note(self, text: str) -> None: ...
    def planned(self, plan: Plan) -> None: ...


class Schedule:
    """The trials of a plan, in the order in which they become possible."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        open_search: Callable[[PlannedSearch, Plan], ArmSearch],
        listeners: tuple[Listener, ...] = (),
    ) -> None:
        self.plan, self.store, self.listeners = plan, store, listeners
        self.ledger = Ledger(store, plan.record.key, plan.scale.budget, plan.scale.gpus)
        self._open_search = open_search
        self.searches = [open_search(planned, plan) for planned in plan.searches]
        self.stop_reason: str | None = None  # set from outside by Ctrl-C
        self.closed_reason: str | None = None  # a budget: what runs may end, nothing new starts
        self.status: dict[str, str] = {}
        self.ended: dict[str, Journal] = {}  # in this run
        self._waiting: dict[str, Trial] = {}
        self._running: dict[str, Trial] = {}
        self._confirmed: set[int] = set()
        self._clock = time.monotonic()
        self._admit(plan.trials)
        for search in self.searches:
            self._remember(search)
        self._record()

    @property
    def stopping(self) -> bool:
        """Whether running trials should save and leave."""
        return self.stop_reason is not None or self.ledger.overtime is not None

    @property
    def exhausted(self) -> bool:
        """Whether no trial will ever come any more."""
        return self.stopping or self.closed_reason is not None or self.complete

    @property
    def complete(self) -> bool:
        """Whether all that the study asks for has an outcome."""
        left = self._waiting or self._running or len(self._confirmed) < len(self.searches)
        return not left

    def next(self) -> Trial | None:
        """The next trial that can start now, or None."""
        self._tick()
        while not self.exhausted:
            trial = self._next_ready()
            if trial is None:
                return None
            if trial.id in self._running or self._is_known(trial):
                continue
            refusal = self.ledger.refusal(trial.id)
            if refusal is not None:
                self._waiting.setdefault(trial.id, trial)
                self.closed_reason = refusal
                return None
            self._start(trial)
            return trial
        return None

    def progress(self, trial_id: str, epoch: Mapping[str, Any] | None) -> None:
        """A slice has ended, with or without an epoch."""
        self._tick()
        if epoch is not None:
            self.ledger.epoch(trial_id, epoch["epoch"], epoch.get("seconds", 0.0))
        for listener in self.listeners:
            listener.progress(trial_id, epoch)

    def report(self, trial_id: str, epoch: Mapping[str, Any]) -> bool:
        """An epoch has ended: whether the trial goes on. One that does not is recorded here."""
        wanted = [search.report(trial_id, epoch) for search in self._searches_of(trial_id)]
        if all(wanted):
            return True
        journal = journals.close(self.store, self._running[trial_id], PRUNED)
        self.store.delete(checkpoint.last_key(trial_id))
        self._ended(trial_id, journal)
        return False

    def finished(self, trial_id: str) -> None:
        """The worker said it is done: its outcome is in the store."""
        journal = journals.read(self.store, trial_id)
        if journal is None or journal.outcome is None:
            self.lost(trial_id, "its journal is gone from the store")
        else:
            self._ended(trial_id, journal)

    def lost(self, trial_id: str, why: str) -> None:
        """The worker died for good."""
        if trial_id in self._running:
            journal = journals.close(self.store, self._running[trial_id], FAILED, reason=why)
            self._ended(trial_id, journal)

    def retried(self, trial_id: str, why: str) -> None:
        for listener in self.listeners:
            listener.retried(trial_id, why)

    def _start(self, trial: Trial) -> None:
        self.ledger.started(trial.id)
        self._waiting.pop(trial.id, None)
        self._running[trial.id] = trial
        self.status[trial.id] = "running"
        for listener in self.listeners:
            listener.started(trial)

    def _ended(self, trial_id: str, journal: Journal) -> None:
        if self._running.pop(trial_id, None) is None:
            return
        seconds = journal.epochs[-1].get("seconds", 0.0) if journal.epochs else 0.0
        self.ledger.finished(trial_id, seconds)
        self.ended[trial_id] = journal
        self._settle(trial_id, journal)

    def _settle(self, trial_id: str, journal: Journal) -> None:
        self.status[trial_id] = journal.status or FAILED
        for search in self._searches_of(trial_id):
            search.tell(journal)
        for listener in self.listeners:
            listener.finished(trial_id, journal)

    def _next_ready(self) -> Trial | None:
        """A listed trial whose parents are done, else one that a search asks for."""
        for trial in list(self._waiting.values()):
            states = [self.status.get(parent) for parent in trial.parent_ids()]
            if all(state == COMPLETED for state in states):
                del self._waiting[trial.id]
                return trial
            if any(state not in (None, "running", COMPLETED) for state in states):
                self._orphaned(trial)
        for search in self.searches:
            trial = search.ask() if self._can_begin(search) else None
            if trial is not None:
                self._record()
                return trial
        return self._confirmed_winner()

    def _can_begin(self, search: ArmSearch) -> bool:
        """Whether the model whose evaluation it searches is there. If it never will be, it ends."""
        states = [self.status.get(parent.id) for parent in search.planned.parents]
        if any(state not in (None, "running", COMPLETED) for state in states):
            search.abandon()
        return all(state == COMPLETED for state in states)

    def _orphaned(self, trial: Trial) -> None:
        """What it builds on did not complete, so it never can."""
        del self._waiting[trial.id]
        bad = next(p for p in trial.parent_ids() if self.status.get(p) != COMPLETED)
        reason = f"the trial {bad} that it builds on is {self.status[bad]}"
        outcome = {"status": FAILED, "metrics": {}, "reason": reason, "orphan_of": bad}
        journal = Journal(trial, outcome=outcome)
        journal.write(self.store)
        self._settle(trial.id, journal)

    def _confirmed_winner(self) -> Trial | None:
        """When a search is over, its winner's trials on fresh seeds join the plan."""
        for index, search in enumerate(self.searches):
            if not search.over or index in self._confirmed:
                continue
            self._confirmed.add(index)
            found = search.winner()
            if found is None:
                self.note(f"the search of {search.planned.arm} found nothing: no trial completed")
                continue
            chains = self.plan.confirmations(search.planned, found[1])
            self.plan = with_chains(self.plan, [chains])
            self._admit(chains.trials)
            self.searches += [self._open_search(each, self.plan) for each in chains.searches]
            self._record()
            return self._next_ready()
        return None

    def _admit(self, trials: tuple[Trial, ...]) -> None:
        """Wait for these; those done before, in whatever study, are done."""
        for trial in trials:
            if trial.id not in self._waiting and trial.id not in self.status:
                self._waiting[trial.id] = trial
        for trial in trials:
            if trial.id in self._waiting and self._is_known(trial):
                self._waiting.pop(trial.id, None)

    def _remember(self, search: ArmSearch) -> None:
        """The trials that an earlier run of the search has ended."""
        for trial_id in search.told:
            journal = journals.read(self.store, trial_id)
            if journal is not None and journal.outcome is not None:
                self._settle(trial_id, journal)

    def _is_known(self, trial: Trial) -> bool:
        """Whether the store has the trial's outcome. A failed one is tried again, once a run."""
        journal = journals.reopened(self.store, trial.id)
        if journal is None or journal.outcome is None or self._lacks_weights(trial):
            return False
        self._settle(trial.id, journal)
        return True

    def _lacks_weights(self, trial: Trial) -> bool:
        """Whether another study ran it and kept nothing, where this one needs its weights."""
        if trial.keep != "weights" or self.plan.study.runner is not None:
            return False
        parents = [p for child in self.plan.trials for p in child.parent_ids()]
        parents += [p.id for search in self.plan.searches for p in search.parents]
        return trial.id in parents and not self.store.exists(checkpoint.weights_key(trial.id))

    def _searches_of(self, trial_id: str) -> list[ArmSearch]:
        """Two arms that differ in later stages alone ask for the very same trials."""
        return [search for search in self.searches if trial_id in search.trials]

    def _record(self) -> None:
        """Write down what the study consists of now."""
        known = self.plan.record.searches
        records = [
            replace(
                record,
                trials=tuple(search.trials),
                chosen=(search.winner() or (None,))[0] if search.over else None,
            )
            for record, search in zip(known, self.searches, strict=True)
        ]
        record = replace(self.plan.record, searches=tuple(records))
        self.plan = replace(self.plan, record=record)
        study_record.write(self.store, record)
        for listener in self.listeners:
            listener.planned(self.plan)

    def _tick(self) -> None:
        now = time.monotonic()
        self.ledger.seconds += now - self._clock
        self._clock = now
        self.closed_reason = self.closed_reason or self.ledger.overtime

    def note(self, text: str) -> None:
        for listener in self.listeners:
            listener.note(text)
