"""Which trial runs next, and what happens when one ends: a state machine without Ray.

`local.py` and `cluster/drive.py` drive the same `Schedule`, so a study makes the same decisions in
a debugger and on a cluster. A decision is in the store before the schedule acts on it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ablate.config.identity import OFF, Keep, Trial
from ablate.errors import TrialError
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.claims import Claims
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Outcome, Status
from ablate.store.store import Store
from ablate.study.chains import confirm_search
from ablate.study.looked import with_history
from ablate.study.plan import with_chains
from ablate.study.planned import Plan
from ablate.trial import checkpoint
from ablate.tune.budget import Ledger
from ablate.tune.choice import Choice
from ablate.tune.earlier import Earlier
from ablate.tune.listener import Listener
from ablate.tune.looks import LooksAhead, described, look_at, with_last_look
from ablate.tune.search.opened import OpenSearch, Searches
from ablate.tune.shared_failure import shared_failure

if TYPE_CHECKING:
    from ablate.tune.search.arm import ArmSearch

DIFFERS = (
    "was run again because its weights were lost, and ended with others: it was not computed as it "
    "was the first time (another machine, other kernels or other code?)"
)
NO_WEIGHTS = "others build on its weights, and the store has none"
LOOP_IS_KNOWN = 2  # epochs, after which a loop has shown what it keeps
MAY_COMPLETE = (None, Status.RUNNING, Status.COMPLETED)


class Schedule:
    """The trials of a plan, in the order in which they become ready."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        open_search: OpenSearch,
        listener: Listener | None = None,
        earlier: Earlier | None = None,
    ) -> None:
        """`earlier` says what is done with trials that are on record and of earlier code."""
        plan = with_history(plan, store)
        self.plan, self.store, self.listener = plan, store, listener or Listener()
        self.looks = LooksAhead(plan.record)
        self.ledger = Ledger(store, plan.record.key, plan.scale.hours)
        self.searches = Searches(store, plan.record.key, open_search)
        self.stop_reason: str | None = None  # set from outside by Ctrl-C
        self.failure: str | None = None  # that the first trials share: none starts
        self.status: dict[str, Status] = {}
        self._design_notes = plan.record.notes
        self.earlier = earlier or Earlier(store)
        self._noted: set[str] = set()  # what cautions were about
        self.ended: dict[str, Journal] = {}  # in this run
        self._learned: set[str] = set()  # trials that reported an epoch in this run
        self._waiting: dict[str, Trial] = {}
        self._running: dict[str, Trial] = {}
        self._has_waited = False
        self._is_whole = False  # until all that an earlier run knew is planned again
        self.elsewhere: dict[str, Trial] = {}  # run by another study's driver now
        self._claims = Claims(store)
        self._clock = time.monotonic()
        self._has_weights: dict[str, bool] = {}
        self._begin_searches()
        self._admit(plan.trials)
        # Searches of an earlier run may be over, and their winners may start further searches.
        while self._confirm_winners() or self._look():
            pass
        self._is_whole = True
        self._record()
        for text in self.reused:
            self.note(text)

    @property
    def reused(self) -> list[str]:
        """What to say of trials of earlier code, which are kept."""
        return self.earlier.note(self.plan.record.trial_ids())

    def close(self) -> None:
        """Release the claims, so that other processes can run the trials that are left."""
        self._claims.close()

    @property
    def stopping(self) -> bool:
        """Return whether running trials should save and stop."""
        return self.stop_reason is not None or self.ledger.overtime is not None

    @property
    def trials(self) -> dict[str, Trial]:
        """All trials that are known by now, with the labels of this study."""
        listed = {trial.id: trial for trial in self.plan.trials}
        return {**self.searches.trials, **listed}

    @property
    def exhausted(self) -> bool:
        """Return whether `next` will never give another trial."""
        return self.stopping or self.failure is not None or self.complete

    @property
    def closed_reason(self) -> str | None:
        """Why trials are left, if the hours are spent."""
        return None if self.complete else self.ledger.overtime

    @property
    def complete(self) -> bool:
        """Return whether every trial of the study has an outcome."""
        left = self._waiting or self._running or self.elsewhere or self.looks.next is not None
        return not left and len(self.searches.settled) == len(self.plan.searches)

    def next(self) -> Trial | None:
        """The next trial that can start now, or None."""
        self._tick()
        # The drivers that ran these may have ended them, or died, since the last call.
        self._waiting |= self.elsewhere
        self.elsewhere.clear()
        while not self.exhausted:
            trial = self._next_ready()
            if trial is None:
                return None
            if trial.id in self._running:
                continue  # another search has suggested it, too
            if not self._claims.claim(trial.id):
                self._wait_for(trial)
                continue
            # Under the claim, since another driver may have ended the trial until a moment ago.
            if self._is_known(trial):
                self._claims.release(trial.id)
                continue
            self._start(trial)
            return trial
        return None

    def progress(self, trial_id: str, epoch: Epoch | None, reached: float | None = None) -> None:
        """Take in the end of a slice, with or without an epoch, and how many epochs are done."""
        self._tick()
        if epoch is not None:
            self._learned.add(trial_id)
            self._note_what_is_known(trial_id, epoch.number)
        self.listener.progress(trial_id, epoch, reached)

    def report(self, trial_id: str, epoch: Epoch) -> bool:
        """Take in an epoch; return whether the trial continues. If not, its outcome is recorded."""
        try:
            wanted = [search.report(trial_id, epoch) for search in self.searches.of(trial_id)]
        except TrialError as error:
            self._cut(trial_id, Status.FAILED, str(error))
            return False
        if not all(wanted):
            self._cut(trial_id, Status.PRUNED)
        return all(wanted)

    def _cut(self, trial_id: str, status: Status, reason: str | None = None) -> None:
        """End a running trial with this outcome."""
        if status == Status.FAILED:  # a retry must not find it, even after a kill between the two
            self.store.delete(checkpoint.last_key(trial_id))
        journal = journals.close(self.store, self._running[trial_id], status, reason)
        self.store.delete(checkpoint.last_key(trial_id))
        self._ended(trial_id, journal)

    def finished(self, trial_id: str) -> None:
        """Take in that a trial is done; its worker has written the outcome to the store."""
        journal = journals.read(self.store, trial_id)
        if journal is None or journal.outcome is None:
            self.lost(trial_id, "its journal is missing from the store")
        else:
            self._ended(trial_id, journal)

    def lost(self, trial_id: str, why: str) -> None:
        """Record a trial as failed because its worker died and is not replaced."""
        if trial_id in self._running:
            journal = journals.close(self.store, self._running[trial_id], Status.FAILED, why)
            self._ended(trial_id, journal)

    def died(self, trial_id: str, why: str) -> bool:
        """Count a worker's death; return whether another worker should resume its trial.

        While the driver is stopping, deaths are not counted: what stops it may stop its workers.
        """
        if self.stopping:
            return True
        trial = self._running.get(trial_id)
        return trial is not None and journals.died(self.store, trial, why).outcome is None

    def retried(self, trial_id: str, why: str) -> None:
        """Take in that another worker resumes a trial whose worker died."""
        self.listener.retried(trial_id, why)
        journal, trial = journals.read(self.store, trial_id), self._running.get(trial_id)
        if journal is not None and trial is not None:
            self._note_if_from_scratch(trial, journal)

    def _wait_for(self, trial: Trial) -> None:
        """Put off a trial until the driver of another study has ended it, or died."""
        self.elsewhere[trial.id] = trial
        if not self._has_waited:
            self.note(f"{trial.name} is being run for another study, and is waited for")
        self._has_waited = True

    def _note_if_from_scratch(self, trial: Trial, journal: Journal) -> None:
        """Note that a trial which had epochs starts again, if it cannot resume."""
        epochs = len(journal.epochs)
        if not epochs or self.store.exists(checkpoint.last_key(trial.id)):
            return
        why = f"it was cut after epoch {epochs}, and had saved nothing"
        self.note(f"{trial.name} starts again: {NO_WEIGHTS if journal.lacks_weights else why}")

    def _note_what_is_known(self, trial_id: str, epoch: int) -> None:
        """Note what a cut trial would lose, after two epochs: by then each change was seen."""
        trial = self._running.get(trial_id) if epoch == LOOP_IS_KNOWN else None
        if trial is not None and (trial.config.kind.function is not None or trial.compile != OFF):
            self._note_once(journals.read(self.store, trial_id))

    def _note_once(self, journal: Journal | None) -> None:
        """Note, once a study, what loops keep and do not save, and why training is not compiled."""
        for about, text in ({} if journal is None else journals.cautions(journal)).items():
            if about not in self._noted:
                self._noted.add(about)
                self.note(text)

    def _start(self, trial: Trial) -> None:
        self._waiting.pop(trial.id, None)
        before = self._reopened(trial.id)
        self._running[trial.id] = trial
        self.status[trial.id] = Status.RUNNING
        self.listener.started(trial)
        if before is not None and before.attempts:
            self._note_if_from_scratch(trial, before)

    def _reopened(self, trial_id: str) -> Journal | None:
        """The journal of a trial that starts now, without the outcome of an earlier run.

        Not before: another study may have that outcome, and this one no budget for the trial.
        """
        journal = journals.reopened(self.store, trial_id)
        if journal is not None and journal.outcome is not None:  # its weights are lost
            journals.run_again(self.store, journal)
        return journal

    def _ended(self, trial_id: str, journal: Journal) -> None:
        trial = self._running.pop(trial_id, None)
        if trial is None:
            return
        self._claims.release(trial_id)
        self.ended[trial_id] = journal
        self._note_once(journal)
        if journal.differs_from_lost:
            self.note(f"{trial.name} {DIFFERS}")
        self._settle(trial, journal)
        if self.failure is None:
            self.failure = shared_failure(self.plan, self.ended, self.status, self._learned)

    def _settle(self, trial: Trial, journal: Journal) -> None:
        """Take in an outcome that is stored: of this run, of an earlier one or of another study.

        The journal has the labels of the study that ran the trial first, `trial` those of this one.
        """
        self.status[trial.id] = journal.status or Status.FAILED
        for search in self.searches.of(trial.id):
            search.tell(journal)
        self.listener.finished(trial.id, replace(journal, trial=trial))

    def _next_ready(self) -> Trial | None:
        """A listed trial whose parents are done, else one that a search suggests."""
        for trial in list(self._waiting.values()):
            states = [self.status.get(parent) for parent in trial.parent_ids()]
            if all(state == Status.COMPLETED for state in states):
                del self._waiting[trial.id]
                return trial
            if any(state not in MAY_COMPLETE for state in states):
                self._orphaned(trial)
        for search in self.searches.opened.values():
            trial = search.ask() if self._can_begin(search) else None
            if trial is not None:
                self._record()
                return trial
        # The trials that confirm a winner, or come after a look, may start now.
        return self._next_ready() if self._confirm_winners() or self._look() else None

    def _can_begin(self, search: ArmSearch) -> bool:
        """Return whether its parents have completed; abandon the search if they never will."""
        if not self.looks.may_search(search.planned):
            return False
        states = [self.status.get(parent.id) for parent in search.planned.parents]
        if any(state not in MAY_COMPLETE for state in states):
            search.abandon()
        return all(state == Status.COMPLETED for state in states)

    def _orphaned(self, trial: Trial) -> None:
        """Record a trial as failed because a parent did not complete.

        Another study may have retried the parent, and run the trial.
        """
        del self._waiting[trial.id]
        if not self._claims.claim(trial.id):
            self._wait_for(trial)
            return
        journal = journals.read(self.store, trial.id) or Journal(trial)
        if not journal.is_done:
            journal.outcome = self._orphans_outcome(trial)
            journal.write(self.store)
        self._claims.release(trial.id)
        self._settle(trial, journal)

    def _orphans_outcome(self, trial: Trial) -> Outcome:
        bad = next(p for p in trial.parent_ids() if self.status.get(p) != Status.COMPLETED)
        reason = f"the trial {bad} that it builds on is {self.status[bad]}"
        return Outcome(status=Status.FAILED, reason=reason, orphan_of=bad)

    def _confirm_winners(self) -> bool:
        """Plan the winners of finished searches on fresh seeds; return whether any was finished."""
        any_finished = False
        for search in self.searches.newly_over():
            any_finished = True
            winner = search.winner()
            if winner is None:
                self.note(f"the search of {search.planned.arm} has no winner: no trial completed")
                for text in self.searches.close_heirs(search.planned, self.plan):
                    self.note(text)
                self._record()
            else:
                self._confirm(search, winner[1])
        return any_finished

    def _confirm(self, search: ArmSearch, winner: Mapping[str, Any]) -> None:
        chains = confirm_search(self.plan, search.planned, winner)
        self.plan = with_chains(self.plan, [chains])
        self._begin_searches()
        self._admit(chains.trials)
        self._record()

    def _look(self) -> bool:
        """Make the next planned look, if its results are there; return whether it was made."""
        num = self.looks.due(self.plan, self.status, self.searches.settled)
        if num is None:
            return False
        self._record()  # the winners so far, which the table names
        self.plan, stopped = look_at(self.plan, self.store, num)
        self.searches.drop(self.plan, stopped, num)
        if self._is_whole:  # else an earlier run has made the look, and said so
            self.note(described(num, stopped, self.plan.record))
        held = self.looks.passed(self.plan.record)
        self._admit(tuple(trial for trial in self.plan.trials if trial.id in held))
        self._record()
        return True

    def looked(self, table: str) -> None:
        """Record the look at the end of a study; `table` is the hash of what was seen."""
        self.plan = with_last_look(self.plan, table)
        self._record()

    def _begin_searches(self) -> None:
        """Open every search that can start.

        The listener gets the plan before what they have learned, so that nothing is unknown to it.
        """
        self.plan, opened = self.searches.open(self.plan)
        self._record()
        for search in opened:
            self._replay(search)

    def _replay(self, search: ArmSearch) -> None:
        """Take over the results of the search's earlier runs, and the trials they had started."""
        for trial_id in search.ended:
            journal = journals.read(self.store, trial_id)
            if journal is not None and journal.outcome is not None:
                self._settle(search.trials[trial_id], journal)
            else:  # its folder was deleted, or is an older copy
                self._waiting[trial_id] = search.trials[trial_id]

    def _admit(self, trials: tuple[Trial, ...]) -> None:
        """Add these trials; those that are done already, in any study, are not run again.

        Those of later seeds are held until the looks before them.
        """
        released = self.looks.released(self.plan.record)
        for trial in trials:
            if trial.id in self._waiting or trial.id in self.status:
                continue
            if trial.id not in released:
                self.looks.held.add(trial.id)
                continue
            if not self._is_known(trial):
                self._waiting[trial.id] = trial

    def _is_known(self, trial: Trial) -> bool:
        """Return whether the trial's outcome is stored.

        A failed trial is retried, once per run. One that a search stopped early is run to its end,
        unless a search of this study stops trials early too.
        """
        journal = self.ended.get(trial.id) or journals.read(self.store, trial.id)
        if journal is None or journal.outcome is None:
            return False
        if journal.status == Status.FAILED and trial.id not in self.ended:
            return False
        if journal.status == Status.PRUNED and not self.searches.may_stop_early(trial.id):
            return False
        if self._lacks_weights(trial) and self.ledger.overtime is None:
            return False
        if trial.id not in self.ended and not self.earlier.may_use(trial, journal):
            return self._met(trial)
        self._settle(trial, journal)
        return True

    def _met(self, trial: Trial) -> bool:
        """Take in that another study made a trial with earlier code; return whether it is left."""
        if self.earlier.choice == Choice.AGAIN:
            self.earlier.restart(trial.id)
            return False
        self.stop_reason = self.stop_reason or self.earlier.stopped(trial)
        self._waiting[trial.id] = trial  # the study is not complete
        return True

    def _lacks_weights(self, trial: Trial) -> bool:
        """Return whether a trial that is still to run needs this trial's weights, and they are
        damaged, deleted, or were never saved."""
        if trial.keep != Keep.WEIGHTS or self.plan.study.runner is not None:
            return False
        if not self._is_built_on(trial.id):
            return False
        if trial.id not in self._has_weights:  # each look reads and verifies the whole file
            self._has_weights[trial.id] = checkpoint.has_weights(self.store, trial.id)
        return not self._has_weights[trial.id]

    def _is_built_on(self, trial_id: str) -> bool:
        """Return whether a trial that is still to be run builds on this one."""
        if self.searches.will_build_on(trial_id, self.plan):
            return True
        children = (child for child in self.plan.trials if trial_id in child.parent_ids())
        return any(not self._is_done(child) for child in children)

    def _is_done(self, trial: Trial) -> bool:
        journal = journals.read(self.store, trial.id)
        return journal is not None and journal.is_done and not self._lacks_weights(trial)

    def _record(self) -> None:
        """Save the study's current plan; only a whole plan replaces an earlier run's record."""
        searches = self.searches.records(self.plan)
        notes = (*self._design_notes, *self.reused)
        record = replace(self.plan.record, searches=searches, notes=notes)
        self.plan = replace(self.plan, record=record)
        if self._is_whole:
            study_record.write(self.store, record)
        self.listener.planned(record)

    def _tick(self) -> None:
        now = time.monotonic()
        self.ledger.passed(now - self._clock)
        self._clock = now

    def note(self, text: str) -> None:
        """Tell the user."""
        self.listener.note(text)


def take_in(schedule: Schedule, trial_id: str, slice_: Mapping[str, Any]) -> bool:
    """Pass a worker's slice to the schedule; return whether the trial continues."""
    epoch = Epoch.from_plain(slice_["epoch"]) if slice_["epoch"] else None
    schedule.progress(trial_id, epoch, slice_.get("reached"))
    if slice_["done"]:
        schedule.finished(trial_id)
        return False
    return epoch is None or schedule.report(trial_id, epoch)
