"""The searches of a plan: which are open, which have ended, and which wait for another's winner."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from ablate.config.identity import Trial
from ablate.errors import DamagedError
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.study_record import SearchRecord
from ablate.study.inherit import with_winner
from ablate.study.planned import Plan, PlannedSearch

if TYPE_CHECKING:
    from ablate.tune.search.arm import ArmSearch  # imports Optuna, which most studies do not need

OpenSearch: TypeAlias = "Callable[[PlannedSearch, Plan], ArmSearch]"


class Searches:
    """The open searches of a study, by their position in its plan."""

    def __init__(self, store: Store, study_key: str, open_search: OpenSearch) -> None:
        self._open_search = open_search
        self._started_before = _started_before(store, study_key)
        self.opened: dict[int, ArmSearch] = {}  # without those that still wait for a winner
        self.settled: set[int] = set()  # whose confirming trials are planned, or will never be

    def open(self, plan: Plan) -> tuple[Plan, list[ArmSearch]]:
        """Open every search that can start; one that is already over may let others start.

        Return the plan with the winners that they inherit, and the searches that were opened.
        """
        before, earlier = -1, set(self.opened)
        while before < len(self.opened):
            before = len(self.opened)
            for index in range(len(plan.searches)):
                plan = self._open(plan, index)
        return plan, [search for index, search in self.opened.items() if index not in earlier]

    def _open(self, plan: Plan, index: int) -> Plan:
        """Open the search, unless it is open or waits for a winner that is not known yet."""
        if index in self.opened or index in self.settled:
            return plan
        if plan.searches[index].waits:
            other = self._inherited_from(plan.searches[index])
            winner = other.winner() if other is not None and other.over else None
            if other is None or winner is None:
                return plan
            plan = with_winner(plan, index, other.planned, other.sampled[winner[0]])
        search = self._open_search(plan.searches[index], plan)
        search.check_whole(self._started_before.get(search.key, 0))
        self.opened[index] = search
        return plan

    def _inherited_from(self, heir: PlannedSearch) -> ArmSearch | None:
        """The search from which `heir` inherits, of the same repeat, if that search is open."""
        arm = heir.inherits.arm if heir.inherits else None
        opened = self.opened.values()
        matching = (s for s in opened if (s.planned.arm, s.planned.repeat) == (arm, heir.repeat))
        return next((search for search in matching if not search.planned.parents), None)

    def newly_over(self) -> Iterator[ArmSearch]:
        """Settle the searches that are over since the last call, one by one."""
        over = [(index, search) for index, search in self.opened.items() if search.over]
        for index, search in over:
            if index not in self.settled:
                self.settled.add(index)
                yield search

    def close_heirs(self, fruitless: PlannedSearch, plan: Plan) -> Iterator[str]:
        """Close the searches that wait for the winner of a search that found none; name them."""
        for index, heir in enumerate(plan.searches):
            waits_for = heir.inherits.arm if heir.waits and heir.inherits else None
            if (waits_for, heir.repeat) == (fruitless.arm, fruitless.repeat):
                self.settled.add(index)
                yield f"the search of {heir.arm} cannot start: {fruitless.arm} has no winner"
                yield from self.close_heirs(heir, plan)

    def drop(self, plan: Plan, arms: Collection[str], num: int) -> None:
        """Close the searches of these arms beyond `num` pairs for good: a look decided the arms."""
        pair = plan.record.replication.pair
        for index, search in enumerate(plan.searches):
            model = search.model.get("seed_index")
            if search.arm in arms and (search.repeat if model is None else pair(model)) >= num:
                self.settled.add(index)
                self.opened.pop(index, None)

    @property
    def trials(self) -> dict[str, Trial]:
        """All trials that they have suggested."""
        return dict(itertools.chain(*(search.trials.items() for search in self.opened.values())))

    def of(self, trial_id: str) -> list[ArmSearch]:
        """The searches of a trial: arms that differ only in later stages share trials."""
        return [search for search in self.opened.values() if trial_id in search.trials]

    def may_stop_early(self, trial_id: str) -> bool:
        """Return whether a search of the trial stops trials early."""
        return any(search.planned.words.early_stopping is not None for search in self.of(trial_id))

    def will_build_on(self, trial_id: str, plan: Plan) -> bool:
        """Return whether a search that is not over builds on the trial."""
        for index, planned in enumerate(plan.searches):
            search = self.opened.get(index)
            over = search is not None and search.over
            if not over and trial_id in [parent.id for parent in planned.parents]:
                return True
        return False

    def records(self, plan: Plan) -> tuple[SearchRecord, ...]:
        """The plan's records of its searches, each with its trials and winner so far."""
        records = list(plan.record.searches)
        for index, search in self.opened.items():
            chosen = (search.winner() or (None,))[0] if search.over else None
            started = tuple(search.trials)
            more = {"chosen": chosen, "key": search.key, "ended": search.over}
            records[index] = replace(records[index], trials=started, **more)
        for index in self.settled:
            # One that a look closed is not open, and has its key from the plan.
            key = records[index].key or plan.searches[index].key
            over = replace(records[index], confirming=(), confirming_after=(), ended=True)
            records[index] = replace(over, key=key)
        return tuple(records)


def _started_before(store: Store, key: str) -> dict[str, int]:
    """How many trials each search had started when the study's record was last written, by key."""
    try:
        searches = study_record.read(store, key).searches if study_record.exists(store, key) else ()
    except DamagedError:  # this run writes it again
        searches = ()
    return {search.key: len(search.trials) for search in searches}
