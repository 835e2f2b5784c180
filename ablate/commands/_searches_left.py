"""What the searches of a plan have left to do: trials to suggest, and trials to confirm winners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.config.identity import Trial
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.study_record import SearchRecord
from ablate.study.chains import confirm_search
from ablate.study.planned import Chains, Plan, PlannedSearch


@dataclass(frozen=True)
class SearchLeft:
    """The work that a search has left, if the search stops no trial early."""

    planned: PlannedSearch
    record: SearchRecord
    num_requests: int
    chains: Chains  # that confirm its winner; without one, those of its start values
    confirming: Sequence[Trial]  # of these, the trials left that no earlier search has, too


def searches_left(plan: Plan, store: Store) -> list[SearchLeft]:
    """Return the work that each search has left."""
    key, left, seen = plan.record.key, [], set[str]()
    stored = study_record.read(store, key).searches if study_record.exists(store, key) else ()
    for search, planned in zip(plan.searches, plan.record.searches, strict=True):
        known = _known(search, planned, stored)
        started = journals.read_all(store, known.trials)
        asked = known.unrequested + len(known.trials) - sum(j.is_done for j in started.values())
        chains = _confirming(plan, search, known, started)
        ends = journals.read_all(store, [trial.id for trial in chains.trials])
        seen |= {trial_id for trial_id, journal in ends.items() if journal.is_done}
        # Arms that differ in later stages share trials: each counts for the first of them.
        new = [trial for trial in chains.trials if trial.id not in seen]
        left.append(SearchLeft(search, known, 0 if planned.shared else asked, chains, new))
        seen |= {trial.id for trial in new}
    return left


def _known(
    search: PlannedSearch, planned: SearchRecord, stored: Sequence[SearchRecord]
) -> SearchRecord:
    """Return the plan's record of a search, with the trials and the winner that are stored.

    The key of a search that inherits changes with the winner from which it starts.
    """
    heir = (planned.arm, planned.repeat, planned.inherits, planned.over)
    for one in stored:
        inherited = planned.inherits and (one.arm, one.repeat, one.inherits, one.over) == heir
        if one.key == search.key or inherited:
            ended = one.ended or one.chosen is not None
            # The plan's numbers, since the study's file may have changed; the stored trials.
            known = replace(planned, trials=one.trials, chosen=one.chosen, key=one.key, ended=ended)
            return replace(known, confirming=(), confirming_after=()) if ended else known
    return planned


def _confirming(
    plan: Plan,
    search: PlannedSearch,
    known: SearchRecord,
    started: Mapping[str, journals.Journal],
) -> Chains:
    """Return the chains that confirm a search's winner; without one, those of its start values."""
    if known.ended and known.chosen is None:
        return Chains((), ())
    chosen = started.get(known.chosen or "")
    values = chosen.trial.values if chosen else {}
    # The search's own changes, such as fewer epochs, are not a part of what won.
    winner = {key: value for key, value in values.items() if key not in search.words.changes}
    return confirm_search(plan, search, winner)
